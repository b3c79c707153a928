"""The production code of a crate: all of its files without what is under `#[cfg(test)]`."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The testkit is a dev-dependency.
CRATES = ("core", "runtime", "cli")

TEST = re.compile(r"\s*#\[cfg\(test\)\]")
MODULE = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?mod (\w+);")


def _read(file):
    """Returns the numbered production lines of a file, and the modules it declares for tests."""
    lines, kept, modules = file.read_text().splitlines(), [], []
    index = 0
    while index < len(lines):
        if not TEST.match(lines[index]):
            kept.append((index + 1, lines[index]))
            index += 1
            continue
        indent = re.match(r"\s*", lines[index]).group()
        index += 1
        while re.match(r"\s*#\[", lines[index]):
            index += 1
        module = MODULE.match(lines[index])
        if module:
            base = file.parent if file.stem in ("lib", "main", "mod") else file.with_suffix("")
            modules += [base / module.group(1), base / (module.group(1) + ".rs")]
        # rustfmt ends an item on its first line, or with a brace at the indentation of that line.
        if not re.search(r"[;}]$", lines[index]):
            while not re.match(indent + r"[})\]]+[;,]?$", lines[index]):
                index += 1
        index += 1
    return kept, modules


def production(crate):
    """Yields each file of a crate, relative to its `src`, with its numbered production lines."""
    src = ROOT / "crates" / crate / "src"
    files = {file: _read(file) for file in sorted(src.rglob("*.rs"))}
    tests = {module for _, modules in files.values() for module in modules}
    for file, (lines, _) in files.items():
        if not tests & {file, *file.parents}:
            yield file.relative_to(src), lines
