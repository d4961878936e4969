"""Copies definitions out of the operator tables, with their dependencies, rewritten for one framework."""

import ast
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent  # the paths of modules are relative to this
PREFIXES = {"jax": "jax_", "numpy": "numpy_", "tensorflow": "tf_", "torch": "torch_"}
MODULES = {"jax.lax": "lax", "jax.nn": "nn", "jax.numpy": "jnp", "numpy": "np"}
# A definition: the file it is in, its name, and the vocabulary it is written for ("" if it needs none).
Symbol = tuple[str, str, str]


@dataclass(frozen=True)
class Module:
    """A file of `converters`, parsed but not run."""

    path: str
    text: str
    definitions: dict[str, ast.stmt]
    modules: dict[str, str]  # the name under which the file imports another file of ours -> that file
    symbols: dict[str, tuple[str, str]]  # a name it imports from another file of ours -> (file, name)
    foreign: dict[str, str]  # a name it imports from a framework -> its text in the new file
    imports: dict[str, str]  # the name that an import of a package binds -> the statement


@functools.cache
def read(path: str) -> Module:
    text = (HERE / path).read_text()
    module = Module(path, text, {}, {}, {}, {}, {})
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            module.definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            module.definitions.update({n.id: node for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)})
        elif isinstance(node, ast.Import):
            module.imports.update(
                {a.asname or a.name: f"import {a.name}" + f" as {a.asname}" * bool(a.asname) for a in node.names}
            )
        elif isinstance(node, ast.ImportFrom):
            _imported(module, node)
    return module


def _imported(module: Module, node: ast.ImportFrom) -> None:
    source = node.module or ""
    for alias in node.names:
        name = alias.asname or alias.name
        if source in MODULES:  # names like `abs` and `sum` must not hide Python's in a file without modules
            module.foreign[name] = f"{MODULES[source]}.{alias.name}"
            module.imports[MODULES[source]] = f"import {source} as {MODULES[source]}"
            continue
        if not source.startswith("xbench."):
            module.imports[name] = f"from {source} import {alias.name}" + f" as {name}" * (name != alias.name)
            continue
        folder = source.removeprefix("xbench.converters").replace(".", "/").lstrip("/")
        file = f"{folder}/{alias.name}.py".lstrip("/")
        if (HERE / file).exists():
            module.modules[name] = file
        elif (HERE / f"{folder}.py").exists():
            module.symbols[name] = (f"{folder}.py", alias.name)


@dataclass
class Copier:
    """Copies definitions and, before each, what it needs."""

    framework: str
    imports: set[str] = field(default_factory=set)
    written: dict[Symbol, str] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    _begun: set[tuple[str, int, str]] = field(default_factory=set)

    def name(self, symbol: Symbol) -> str:
        """The name of a definition in the new file."""
        path, name, space = symbol
        if path.startswith("ops/arrays/"):
            prefix = PREFIXES[path.removeprefix("ops/arrays/").removesuffix(".py")]
            return f"_{prefix}{name[1:]}" if name.startswith("_") else prefix + name
        if symbol not in self.written:
            stem = Path(path).stem
            plain = f"{name}_numpy" if space == "numpy" else name
            taken = set(self.written.values())
            self.written[symbol] = (
                f"_{stem}{plain}"
                if plain in taken and plain.startswith("_")
                else (f"{stem}_{plain}" if plain in taken else plain)
            )
        return self.written[symbol]

    def need(self, symbol: Symbol) -> str:
        """Copies a definition unless it was copied, and returns its name in the new file."""
        path, name, space = symbol
        module = read(path)
        if name in module.foreign:
            written = module.foreign[name]
            self.imports.add(module.imports[written.partition(".")[0]])
            return written
        if name not in module.definitions and name in module.symbols:
            return self.need((*module.symbols[name], space))
        node = module.definitions[name]
        key = (path, node.lineno, space)
        if key not in self._begun:
            self._begun.add(key)
            self.parts.append(_Edits(self, module, node, space).text())
        return self.name(symbol)


class _Edits:
    """One definition with its references rewritten; everything else, comments included, stays as it is."""

    def __init__(self, copier: Copier, module: Module, node: ast.stmt, space: str) -> None:
        self.copier, self.module, self.node, self.space = copier, module, node, space
        self.lines = module.text.splitlines(keepends=True)
        self.edits: list[tuple[int, int, str]] = []
        self.dropped: set[int] = set()
        self.local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.local |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        if not isinstance(node, ast.FunctionDef):
            self.local -= set(module.definitions)

    def text(self) -> str:
        self.visit(self.node)
        start, end = self.offset(self.node.lineno, 0), self.offset(self.node.end_lineno, self.node.end_col_offset)
        text = self.module.text
        if isinstance(self.node, ast.FunctionDef):
            at = text.index(f"def {self.node.name}", start) + 4
            name = self.copier.name((self.module.path, self.node.name, self.space))
            self.edits.append((at, at + len(self.node.name), name))
        for first, last, new in sorted(self.edits, reverse=True):
            text = text[:first] + new + text[last:]
            end += len(new) - (last - first)
        return text[start:end]

    def offset(self, line: int | None, column: int | None) -> int:
        assert line is not None and column is not None, "text that ast.parse has read has places"
        preceding = sum(len(each) for each in self.lines[: line - 1])
        return preceding + len(self.lines[line - 1].encode()[:column].decode())

    def replace(self, node: Any, new: str) -> None:
        first, last = self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)
        if self.module.text[first:last] != new:
            self.edits.append((first, last, new))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self.drop(node.args, lambda each: isinstance(each, ast.Name) and self.is_vocabulary(each.id))
        elif isinstance(node, ast.arguments):
            self.drop(node.args, lambda each: each.arg == "xp")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and self.attribute(node):
            return
        elif isinstance(node, ast.Name) and (node.id not in self.local):
            self.plain(node)
        for child in ast.iter_child_nodes(node):
            if id(child) not in self.dropped:
                self.visit(child)

    def is_vocabulary(self, name: str) -> bool:
        return name == "xp" or self.module.modules.get(name, "").startswith("ops/arrays/")

    def drop(self, items: list[Any], unwanted: Any) -> None:
        """Removes an argument with its comma."""
        for item in items:
            if unwanted(item):
                first = self.offset(item.lineno, item.col_offset)
                last = self.offset(item.end_lineno, item.end_col_offset)
                rest = self.module.text[last:]
                gap = len(rest) - len(rest.lstrip(", \n")) if rest.lstrip()[:1] == "," else 0
                self.edits.append((first, last + gap, ""))
                self.dropped.add(id(item))

    def attribute(self, node: ast.Attribute) -> bool:
        assert isinstance(node.value, ast.Name)
        owner = node.value.id
        if owner == "xp":
            self.replace(node, self.copier.need((f"ops/arrays/{self.space}.py", node.attr, "")))
        elif owner in self.module.modules:
            file = self.module.modules[owner]
            space = self.copier.framework if file.startswith("ops/generic/") else ""
            self.replace(node, self.copier.need((file, node.attr, space)))
        else:
            return False
        return True

    def plain(self, node: ast.Name) -> None:
        name, module = node.id, self.module
        if name in module.definitions:
            self.replace(node, self.copier.need((module.path, name, self.space)))
        elif name in module.symbols:
            self.replace(node, self.copier.need((*module.symbols[name], self.space)))
        elif name in module.foreign:
            self.replace(node, self.copier.need((module.path, name, "")))
        elif name in module.imports:
            self.copier.imports.add(module.imports[name])
