"""The output of ``-J`` in other forms: YAML (``-Y``), XML as XML::Dumper (``-X``), Perl as Data::Dumper (``-D``)."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Annotated, Any, TextIO
from xml.etree import ElementTree

import typer
from typer import Context
from typer.core import TyperCommand

from oarpy.client.boundary import declared
from oarpy.client.rendering import JsonValue
from oarpy.model.errors import UsageError

_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def yaml_text(value: JsonValue) -> str:
    """Return ``value`` as a YAML document."""
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=True, width=1000))


def xml_text(value: JsonValue) -> str:
    """Return ``value`` as XML::Dumper writes it; characters that XML lacks become U+FFFD."""
    root = ElementTree.Element("perldata")
    _xml(root, value)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _xml(parent: ElementTree.Element, value: JsonValue) -> None:
    if isinstance(value, dict):
        inner = ElementTree.SubElement(parent, "hashref")
        for name, item in value.items():
            _xml_item(inner, str(name), item)
    elif isinstance(value, list):
        inner = ElementTree.SubElement(parent, "arrayref")
        for place, item in enumerate(value):
            _xml_item(inner, str(place), item)
    else:
        ElementTree.SubElement(parent, "scalar").text = _in_xml(value)


def _xml_item(parent: ElementTree.Element, key: str, value: JsonValue) -> None:
    item = ElementTree.SubElement(parent, "item", key=_NOT_IN_XML.sub("\ufffd", key))
    if value is None:
        item.set("defined", "false")
    elif isinstance(value, dict | list):
        _xml(item, value)
    else:
        item.text = _in_xml(value)


def _in_xml(value: JsonValue) -> str:
    return _NOT_IN_XML.sub("\ufffd", str(int(value) if isinstance(value, bool) else value))


def perl_text(value: JsonValue) -> str:
    """Return ``value`` as an assignment to ``$VAR1`` that Perl can evaluate; true and false are 1 and 0."""
    return f"$VAR1 = {_perl(value, '  ')};\n"


def _perl(value: JsonValue, indent: str) -> str:
    if isinstance(value, dict):
        lines = [f"{indent}{_perl(str(name), '')} => {_perl(item, indent + '  ')}" for name, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent[2:]}}}" if lines else "{}"
    if isinstance(value, list):
        lines = [indent + _perl(item, indent + "  ") for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent[2:]}]" if lines else "[]"
    if value is None:
        return "undef"
    if isinstance(value, int):
        return str(int(value))
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


_FORMS: dict[str, Callable[[JsonValue], str]] = {"as_perl": perl_text, "as_xml": xml_text, "as_yaml": yaml_text}


def _options(
    *,
    as_perl: Annotated[
        bool, typer.Option("-D", "--dumper", help="Print what -J prints, as Perl's Data::Dumper.")
    ] = False,
    as_xml: Annotated[bool, typer.Option("-X", "--xml", help="Print what -J prints, as XML.")] = False,
    as_yaml: Annotated[bool, typer.Option("-Y", "--yaml", help="Print what -J prints, as YAML.")] = False,
) -> None:
    """Declare an option for each form."""


class _Documents(io.StringIO):
    """Turns each JSON document written to it into another form, as soon as it is complete and flushed."""

    def __init__(self, output: TextIO, form: Callable[[JsonValue], str]) -> None:
        super().__init__()
        self._output, self._form = output, form

    def flush(self) -> None:
        """Pass on the complete documents."""
        text = self.getvalue()
        end = 0
        for value, end in _documents(text):  # noqa: B007
            self._output.write(self._form(value))
        self.seek(0)
        self.truncate()
        self.write(text[end:])
        self._output.flush()


def _documents(text: str) -> Iterator[tuple[Any, int]]:
    """Yield each JSON document of a text and where it ends, up to an incomplete document."""
    decoder, place = json.JSONDecoder(), 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError:
            return
        yield value, place


class DocumentCommand(TyperCommand):
    """A command with ``-J`` that can print the same in OAR's other forms."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += declared(_options)

    def invoke(self, ctx: Context) -> Any:  # type: ignore[override]
        """Run the command as with ``-J`` when another form is requested, and convert its output."""
        forms = [name for name in _FORMS if ctx.params.pop(name)]
        if not forms:
            return super().invoke(ctx)
        if len(forms) > 1 or ctx.params["as_json"]:
            raise UsageError("-D, -J, -X and -Y exclude each other", hint="give one of them")
        ctx.params["as_json"] = True
        with _Documents(sys.stdout, _FORMS[forms[0]]) as output, redirect_stdout(output):
            try:
                return super().invoke(ctx)
            finally:
                output.flush()
