"""Finds what is declared in the source and used by nobody there, by walking syntax trees: nothing is imported or run."""

import ast
import dataclasses
import itertools
import re
from functools import cached_property
from pathlib import Path

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
ALIASES = ("Literal", "NewType")
ATTRIBUTE = re.compile(r"([\w.]+):(\w+)")
"""Code that is named rather than imported: `module:attribute`."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A module as text."""

    name: str
    text: str

    @cached_property
    def tree(self):
        return ast.parse(self.text)

    @cached_property
    def nodes(self):
        return list(ast.walk(self.tree))

    @cached_property
    def imported(self):
        """Per local name: the module and the name in it; an empty name stands for the module itself."""
        bound = {}
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for each in node.names:
                    bound[each.asname or each.name] = (node.module, each.name)
            elif isinstance(node, ast.Import):
                for each in node.names:
                    bound[each.asname or each.name.split(".")[0]] = (each.name, "")
        return bound

    @cached_property
    def strings(self):
        return {node.value for node in self.nodes if is_text(node)}

    @cached_property
    def attributes(self):
        return {node.attr for node in self.nodes if isinstance(node, ast.Attribute)}

    @cached_property
    def members(self):
        """Names and attributes of `Name.attribute`."""
        named = (node for node in self.nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
        return {(node.value.id, node.attr) for node in named}

    @cached_property
    def outside_types(self):
        """Texts that do not stand in a `Literal[...]`."""
        inside = {id(each) for node in self.nodes if is_literal(node) for each in ast.walk(node)}
        return {node.value for node in self.nodes if is_text(node) and id(node) not in inside}


def read_modules(root: Path) -> list[Module]:
    """The modules of a package below a folder such as `src`."""
    paths = sorted(path for path in root.rglob("*.py"))
    return [
        Module(".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"), path.read_text())
        for path in paths
    ]


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_literal(node):
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"


# Classes and functions.


def unused_definitions(modules):
    """`module:name` of public classes, functions and aliases of types that nobody refers to; imports alone do not count."""
    used = set(itertools.chain.from_iterable(_references(module) for module in modules))
    reached = {}
    for module in modules:
        for other in _reached(module):
            reached.setdefault(other, set()).update(module.attributes)
    return [
        f"{module.name}:{name}"
        for module in modules
        for name in _definitions(module)
        if (module.name, name) not in used
        and name not in reached.get(module.name, ())
        and not _is_used_at_home(module, name)
    ]


def _definitions(module):
    for node in module.tree.body:
        if isinstance(node, DEFINITIONS) and not node.name.startswith("_") and not _is_called_by_name(module, node):
            yield node.name
        elif isinstance(node, ast.Assign) and _alias(node.value) and not node.targets[0].id.startswith("_"):
            yield node.targets[0].id


def _alias(value):
    made_of = value.func if isinstance(value, ast.Call) else value.value if isinstance(value, ast.Subscript) else None
    return isinstance(made_of, ast.Name) and made_of.id in ALIASES


COMMANDS = ("command", "callback")
ROUTES = ("get", "post", "put", "patch", "delete")


def _is_called_by_name(module, node):
    """Whether a decorator hands a function to the command line or to a router, or migrations call it as every revision's."""
    decorators = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    attributes = [each for each in decorators if isinstance(each, ast.Attribute)]
    is_route = any(each.attr in ROUTES and getattr(each.value, "id", "").endswith("router") for each in attributes)
    is_revision = ".migrations.versions." in module.name and node.name in ("upgrade", "downgrade")
    return is_route or is_revision or any(each.attr in COMMANDS for each in attributes)


def _is_used_at_home(module, name):
    for node in module.tree.body:
        if isinstance(node, DEFINITIONS) and node.name == name:
            continue
        if any(isinstance(each, ast.Name) and each.id == name for each in _loads(node)):
            return True
    return False


def _loads(node):
    return (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))


def _references(module):
    """What a module uses of others by a name it imported, or by a text `module:name`."""
    loaded = {node.id for node in module.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    yield from ((origin, name) for local, (origin, name) in module.imported.items() if local in loaded)
    if module.name != "millstream":  # it re-exports, also by such texts
        yield from (match.groups() for text in module.strings if (match := ATTRIBUTE.fullmatch(text)))


def _reached(module):
    """Modules that a module can reach attributes of: imported, or named by a text."""
    for origin, name in module.imported.values():
        yield from (origin, f"{origin}.{name}")
    yield from (text for text in module.strings if text.startswith("millstream."))


# Values of enumerations, and alternatives of types.


def unused_members(modules):
    """`Enum.MEMBER` that is named nowhere outside its declaration."""
    named = set().union(*(module.members for module in modules))
    return [
        f"{node.name}.{member}"
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases)
        for member in _members(node)
        if (node.name, member) not in named
    ]


def _members(node):
    return [each.targets[0].id for each in node.body if isinstance(each, ast.Assign)]


def unused_alternatives(modules):
    """`Alias: alternative` of module-level `Literal` types that is compared with or made nowhere."""
    written = set().union(*(module.outside_types for module in modules))
    return [
        f"{node.targets[0].id}: {each.value}"
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign) and is_literal(node.value)
        for each in ast.walk(node.value.slice)
        if is_text(each) and each.value not in written
    ]


def undeclared(modules, enum):
    """Members of an enumeration that no connector names."""
    named = set().union(*(module.members for module in modules if ".connectors." in module.name))
    declared = class_of(modules, enum)
    return [f"{enum}.{member}" for member in _members(declared) if (enum, member) not in named]


def class_of(modules, name):
    """The definition of a class that is there once."""
    (found,) = [
        node for module in modules for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return found


# Options of connectors.


def unread_options(modules):
    """`connector.option` that is declared, and looked up by no module of that connector."""
    found = []
    for spec in modules:
        folder, _, module = spec.name.rpartition(".")
        if module.endswith("spec"):
            read = set().union(*(_looked_up(module) for module in modules if module.name.startswith(f"{folder}.")))
            found += [f"{folder.split('.')[-1]}.{option}" for option in _options(spec) if option not in read]
    return found


def _options(spec):
    """Keys of dicts whose values are made by `Option(...)`."""
    for node in spec.nodes:
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                is_option = (
                    isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Option"
                )
                if is_option and is_text(key):
                    yield key.value


def _looked_up(module):
    """Keys by which something is looked up: `options["key"]`, `options.get("key")`."""
    for node in module.nodes:
        if isinstance(node, ast.Subscript) and is_text(node.slice) and isinstance(node.ctx, ast.Load):
            yield node.slice.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield from (each.value for each in node.args[:1] if is_text(each))


# Metrics.


def unwritten_metrics(modules):
    """Metrics of a list of them whose name stands nowhere else: nobody gives their samples. Names may be put together."""
    mine = [module for module in modules if ".metrics." in module.name]
    lists = [module for module in mine if module.name.endswith(".catalogue")]
    calls = [node for module in lists for node in module.nodes if isinstance(node, ast.Call)]
    described = {node.args[0].value for node in calls if node.args and is_text(node.args[0])}
    writers = [module for module in mine if module not in lists]
    patterns = [_pattern(node) for module in writers for node in module.nodes if isinstance(node, ast.JoinedStr)]
    written = {text for module in writers for text in module.strings}
    made = {name for name in described for pattern in patterns if re.fullmatch(pattern, name)}
    return sorted(described - written - made)


def _pattern(node):
    """What a text that is put together can be; the parts that vary are words."""
    parts = [re.escape(part.value) if isinstance(part, ast.Constant) else "[a-z]+(?:_[a-z]+)?" for part in node.values]
    return "".join(parts) if any(isinstance(part, ast.Constant) for part in node.values) else "(?!)"
