"""Finds fields of values that nobody sets or nobody reads. Which names hold such a value is told by annotations."""

import ast
import re
from functools import cached_property

from hollow import class_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FILLING = ("setdefault", "update", "append", "extend")


class Holders:
    """Where values of one class are held: attributes, what functions return, and names inside a function."""

    def __init__(self, modules, name):
        self._modules, self._name = modules, name
        self._word = re.compile(rf"\b{name}\b")

    def is_said(self, annotation):
        return annotation is not None and self._word.search(ast.unparse(annotation)) is not None

    @cached_property
    def attributes(self):
        """Attributes that are annotated with the class, anywhere."""
        annotated = [node for node in self._nodes if isinstance(node, ast.AnnAssign) and self.is_said(node.annotation)]
        return {getattr(node.target, "attr", None) or getattr(node.target, "id", None) for node in annotated}

    @cached_property
    def returning(self):
        """Functions that return one, or several."""
        return {node.name for node in self._nodes if isinstance(node, _FUNCTIONS) and self.is_said(node.returns)}

    @cached_property
    def _nodes(self):
        return [node for module in self._modules if self._word.search(module.text) for node in module.nodes]

    def loads(self):
        """Attributes that are read from a value of the class."""
        told = re.compile("|".join(rf"\b{word}\b" for word in {self._name, *self.attributes, *self.returning}))
        for module in self._modules:
            if told.search(module.text):
                for node in module.nodes:
                    if isinstance(node, _FUNCTIONS):
                        yield from self._loads_in(node)

    def _loads_in(self, function):
        names = {each.arg for each in _arguments(function) if self.is_said(each.annotation)}
        nodes = list(ast.walk(function))
        for _ in range(2):  # a name may be bound by one that is bound further down
            for node in nodes:
                names |= self._bound(node, names)
        for node in nodes:
            if isinstance(node, ast.Attribute) and self._holds(node.value, names):
                yield node.attr

    def _bound(self, node, names):
        if isinstance(node, (ast.For, ast.comprehension)) and self._holds(node.iter, names):
            return _names(node.target)
        if isinstance(node, ast.Assign) and self._holds(node.value, names):
            return set().union(*(_names(target) for target in node.targets))
        if isinstance(node, ast.AnnAssign) and self.is_said(node.annotation):
            return _names(node.target)
        return {node.target.id} if isinstance(node, ast.NamedExpr) and self._holds(node.value, names) else set()

    def _holds(self, node, names):
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            # `items` and `values` of a mapping of such values are seen as the values themselves.
            return node.attr in self.attributes or (self._holds(node.value, names) and node.attr in ("items", "values"))
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            passed = any(self._holds(each, names) for each in node.args)
            return called in {self._name, *self.returning} or self._holds(node.func, names) or passed
        if isinstance(node, (ast.Subscript, ast.Starred)):
            return self._holds(node.value, names)
        return any(self._holds(each, names) for each in ast.iter_child_nodes(node) if _is_choice(node))


def _is_choice(node):
    return isinstance(node, (ast.IfExp, ast.BoolOp, ast.List, ast.Tuple, ast.GeneratorExp, ast.ListComp))


def _arguments(function):
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def _names(target):
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def fields_of(modules, name):
    """The fields of a class, in order."""
    return [node.target.id for node in class_of(modules, name).body if isinstance(node, ast.AnnAssign)]


def unset_fields(modules, name):
    """`Class.field` that no call gives, and that is never stored to or filled."""
    given = set()
    for module in modules:
        for node in module.nodes:
            given |= _given(node, name)
    return [f"{name}.{field}" for field in fields_of(modules, name) if field not in given]


def _given(node, name):
    if isinstance(node, ast.Call):
        called = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
        filled = getattr(node.func, "value", None) if called in _FILLING else None
        keywords = {each.arg for each in node.keywords} if called in (name, "replace") else set()
        return keywords | ({filled.attr} if isinstance(filled, ast.Attribute) else set())
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return {node.value.attr}
    return {node.attr} if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) else set()


def unread_fields(modules, name):
    """`Class.field` that nobody reads from a value of the class."""
    read = set(Holders(modules, name).loads())
    return [f"{name}.{field}" for field in fields_of(modules, name) if field not in read]
