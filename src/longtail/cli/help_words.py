"""Words in place of Python's types in help: PATH instead of <path>, nothing behind a flag."""

from __future__ import annotations

from typing import Any, get_args

#: What stands behind an option whose value has no name of its own.
WORDS = {"Path": "PATH", "str": "TEXT", "int": "NUMBER", "float": "NUMBER"}


def take_types_off(command: Any, above: Any = None) -> None:
    """Changes what a command and those below it say in help; choices stay as they are."""
    context = command.context_class(command, parent=above, **command.context_settings)
    for parameter in command.params:
        if parameter.param_type_name == "argument":  # its name says it
            parameter.display_type_rich = lambda ctx: None
        else:
            _name_value(parameter)
    _name_value(command.get_help_option(context))
    for below in getattr(command, "commands", {}).values():
        take_types_off(below, context)


def _name_value(option: Any) -> None:
    if option.metavar is not None:
        return
    if getattr(option, "is_flag", False):
        option.metavar = ""
        return
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    word = WORDS.get(getattr((*get_args(annotation), annotation)[0], "__name__", ""))
    if word is not None:
        option.metavar = word
    elif getattr(option, "multiple", False):
        option.metavar = "TEXT"
