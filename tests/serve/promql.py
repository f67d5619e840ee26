"""A parser for the part of PromQL that dashboards and rules use: it refuses what is malformed, and finds selectors."""

import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<duration>\d+(?:ms|[smhdwy]))|(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?)"""
    r"""|(?P<name>[a-zA-Z_:][\w:]*)|(?P<op>=~|!~|==|!=|<=|>=|[-+*/%^<>=(){}\[\],]))"""
)
# Functions by how many arguments they take.
FUNCTIONS = {"rate": 1, "increase": 1, "changes": 1, "absent": 1, "time": 0, "predict_linear": 2}
FUNCTIONS |= {"histogram_quantile": 2, "label_values": 2}
RANGES = {"rate", "increase", "changes", "predict_linear"}  # those of a range
AGGREGATIONS = {"sum", "min", "max", "avg", "count"}
BINARY = {"+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">=", "and", "or", "unless"}


class Selector(NamedTuple):
    """A metric with the labels it is asked for: (label, operator, value)."""

    metric: str
    matchers: list[tuple[str, str, str]]
    is_range: bool


class Parser:
    """Reads one expression. `selectors` are its metrics, `labels` the names it groups or joins by."""

    def __init__(self, text: str) -> None:
        self.selectors: list[Selector] = []
        self.labels: list[str] = []
        self._tokens = []
        at = 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text!r}: what is {text[at : at + 20]!r}?")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._text = text
        self._expression()
        if self._tokens:
            raise ValueError(f"{text!r}: {self._tokens[0][1]!r} was not expected")

    def _peek(self):
        return self._tokens[0] if self._tokens else ("end", "")

    def _take(self, *expected):
        kind, token = self._peek()
        if expected and token not in expected and kind not in expected:
            raise ValueError(f"{self._text!r}: {token!r} instead of {' or '.join(expected)}")
        del self._tokens[:1]
        return token

    def _expression(self) -> None:
        self._operand()
        while self._peek()[1] in BINARY:
            self._take()
            if self._peek()[1] == "bool":
                self._take()
            if self._peek()[1] in ("on", "ignoring"):
                self._take()
                self.labels += self._names()
            self._operand()

    def _operand(self) -> None:
        kind, token = self._peek()
        if token == "(":
            self._take()
            self._expression()
            self._take(")")
        elif kind == "number":
            self._take()
        elif token in AGGREGATIONS:
            self._take()
            if self._peek()[1] in ("by", "without"):
                self._take()
                self.labels += self._names()
            self._arguments(token, 1)
        elif token in FUNCTIONS:
            self._take()
            self._arguments(token, FUNCTIONS[token])
        else:
            self._selector()

    def _arguments(self, function: str, n: int) -> None:
        self._take("(")
        first = len(self.selectors)
        for k in range(n):
            if k:
                self._take(",")
            self._expression()
        self._take(")")
        if function in RANGES and not self.selectors[first].is_range:
            raise ValueError(f"{self._text!r}: {function} wants a range such as [5m]")
        if function == "label_values":
            self.labels.append(self.selectors.pop().metric)

    def _names(self) -> list[str]:
        self._take("(")
        names = [self._take("name")]
        while self._peek()[1] == ",":
            self._take()
            names.append(self._take("name"))
        self._take(")")
        return names

    def _selector(self) -> None:
        metric, matchers = self._take("name"), []
        if self._peek()[1] == "{":
            self._take()
            while self._peek()[1] != "}":
                label, operator = self._take("name"), self._take("=", "!=", "=~", "!~")
                matchers.append((label, operator, self._take("string")[1:-1]))
                if self._peek()[1] != "}":
                    self._take(",")
            self._take("}")
        is_range = self._peek()[1] == "["
        if is_range:
            self._take()
            self._take("duration")
            self._take("]")
        self.selectors.append(Selector(metric, matchers, is_range))
