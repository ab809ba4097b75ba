"""A small tree on disk to feed a tool with: {path: text}."""
import contextlib
import pathlib
import tempfile


@contextlib.contextmanager
def tree(files):
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield root
