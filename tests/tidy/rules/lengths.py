# SPDX-License-Identifier: Apache-2.0
import ast

from cpp import functions
from tree import Finding, script_kind

NAME = "lengths"
WHAT = "files have at most 500 lines and functions at most 70"

MAX_FILE = 500
MAX_FUNCTION = 70


def check(tree):
    for file in tree.files:
        python = script_kind(file) == "python"
        if not (file.is_cpp() or python or script_kind(file) == "shell"):
            continue
        lines = len(file.lines) - (file.lines[-1] == "")
        if lines > MAX_FILE:
            yield Finding(file.path, MAX_FILE + 1, NAME, f"{lines} lines: cut it where a reader would expect it")
        for name, first, last in python_functions(file) if python else cpp_functions(file):
            if last - first + 1 > MAX_FUNCTION:
                yield Finding(file.path, first, NAME, f"{name} has {last - first + 1} lines: give its parts names")


def cpp_functions(file):
    return functions(file.code) if file.is_cpp() else ()


def python_functions(file):
    try:
        tree = ast.parse(file.text)
    except SyntaxError:
        return  # rules/scripts.py says so
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno
