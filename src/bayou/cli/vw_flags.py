"""Vowpal Wabbit's flags on `bayou train` and `bayou predict`.

They mean what they mean there, or a sentence says what to write instead. `-q`, `--cubic`, `--interactions`, `--ignore`,
`--passes` and `--quiet` are options of bayou itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from typer.core import TyperCommand

from bayou.cli.usage import BadUsage


class Flag(NamedTuple):
    """A flag of Vowpal Wabbit.

    Attributes:
        names: its spellings there, short ones first.
        becomes: the options that replace it here, {} being its value, or a function of the value that returns them.
            Empty if it is dropped; None if there are none.
        instead: if nothing replaces it, what to write; DATA and MODEL are those of the command.
        value: whether a value follows.
    """

    names: tuple[str, ...]
    becomes: str | Callable[[str], str] | None = None
    instead: str = ""
    value: bool = True


def _loss(name: str) -> str:
    """Return the option for a loss function of Vowpal Wabbit; raise BadUsage if there is none."""
    if name in _LOSSES:
        return f"--task {_LOSSES[name]}"
    if name == "quantile":
        raise BadUsage(
            "--loss_function quantile: learn numbers with --task regression; bayou predict --quantiles .1,.5,.9 "
            "writes any quantiles."
        )
    raise BadUsage(
        f"--loss_function {name}: bayou has logistic (--task binary) and squared, with errors of heavy tails (--task "
        "regression)."
    )


_LOSSES = {"logistic": "binary", "squared": "regression"}
_DATA = Flag(("-d", "--data"), "{}")
_THERE = "the model keeps this from training: leave it out."
_NO_CACHE = Flag(
    ("-c", "-k", "--cache", "--kill_cache"),
    instead="bayou needs no cache, it reads the data again in each pass: leave it out.",
    value=False,
)
_SENTENCES = {
    ("--cache_file",): "bayou needs no cache, it reads the data again in each pass: leave it out.",
    ("-l", "--learning_rate"): "the default learner has no learning rate, leave it out; "
    "--learner adagrad --set learning_rate={} has one.",
    ("--power_t", "--initial_t", "--decay_learning_rate"): "the default learner needs no schedule of learning rates: "
    "leave it out.",
    ("--l1",): "the default learner needs no penalty, leave it out; --learner ftrl --set l1=1 has one, and "
    "--learner spike-slab selects features.",
    ("--l2",): "the default learner needs no penalty, leave it out; --learner adagrad --set l2={} has one.",
    ("-p", "--predictions", "-r", "--raw_predictions"): "predictions are written by a model: bayou train DATA --model "
    "MODEL, then bayou predict DATA --model MODEL --out predictions.csv.",
    ("--invert_hash", "--readable_model"): "names are kept in the model: bayou train DATA --model MODEL, then "
    "bayou features MODEL --index --out {}.csv.",
    ("--keep",): "name the other first letters with --ignore.",
    ("--link",): "bayou predict writes probabilities and scores: leave it out.",
    ("--holdout_period",): "--holdout random:0.1 keeps a tenth of the examples to test the model on.",
    ("--ngram", "--skips"): "bayou makes no n-grams of VW text; write them into the data.",
}
_BARE = {
    ("-t", "--testonly"): "to predict without learning: bayou predict DATA --model MODEL.",
    (
        "-a",
        "--audit",
    ): "names are kept in the model: bayou train DATA --model MODEL, then bayou features MODEL --index.",
    ("--holdout_off", "--save_resume", "--preserve_performance_counters"): "bayou always works this way: leave it out.",
    (
        "--adaptive",
        "--normalized",
        "--invariant",
        "--sgd",
        "--bfgs",
    ): "the default learner needs none of them, leave it out; --learner adagrad is nearest to Vowpal Wabbit's.",
}
TRAIN = [
    _DATA,
    Flag(("-b", "--bit_precision"), "--bits {}"),
    Flag(("-f", "--final_regressor"), "--model {}"),
    Flag(("-i", "--initial_regressor"), "--resume {}"),
    Flag(("--noconstant",), "--set intercept=false", value=False),
    Flag(("--ftrl",), "--learner ftrl", value=False),
    Flag(("--oaa",), "--task multiclass"),
    Flag(("--loss_function",), _loss),
    _NO_CACHE,
    *(Flag(names, None, instead) for names, instead in _SENTENCES.items()),
    *(Flag(names, None, instead, value=False) for names, instead in _BARE.items()),
]
PREDICT = [
    _DATA,
    Flag(("-i", "--initial_regressor"), "--model {}"),
    Flag(("-t", "--testonly"), "", value=False),
    Flag(("-p", "--predictions"), "--out {}"),
    Flag(
        ("-f", "--final_regressor"), None, "predict changes no model; bayou train DATA --resume MODEL --model {} does."
    ),
    Flag(("-q", "--quadratic", "--cubic", "--interactions", "--ignore", "-b", "--bit_precision"), None, _THERE),
    Flag(("--loss_function", "-l", "--learning_rate", "--passes"), None, _THERE),
    Flag(("--noconstant",), None, _THERE, value=False),
    _NO_CACHE,
]


def translate_flags(flags: list[Flag], args: list[str], own_options: dict[str, bool]) -> list[str]:
    """Arguments without Vowpal Wabbit's flags; own: the command's own options, and whether a value follows.

    >>> translate_flags(TRAIN, ["-d", "a.vw", "-b18", "-q", "ab", "-f", "m.bayou"], {"-q": True})
    ['a.vw', '--bits', '18', '-q', 'ab', '--model', 'm.bayou']
    """
    flags_by_name = {name: flag for flag in flags for name in flag.names if name not in own_options}
    translated: list[str] = []
    missing: list[tuple[str, Flag, str]] = []
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        if arg == "--":
            translated += [arg, *remaining]
            break
        name, value = _split(arg, flags_by_name)
        if name is None:
            translated.append(arg)
            if own_options.get(arg) and remaining:
                translated.append(remaining.pop(0))
            continue
        flag = flags_by_name[name]
        if flag.value and value is None:
            if not remaining:
                raise BadUsage(f"{name} needs a value.")
            value = remaining.pop(0)
        if flag.becomes is None:
            missing.append((name, flag, value or ""))
        elif callable(flag.becomes):
            translated += flag.becomes(value or "").split()
        else:
            translated += [word.format(value) for word in flag.becomes.split()]
    if missing:
        raise _instead(*missing[0], translated)
    return translated


def _split(arg: str, flags_by_name: dict[str, Flag]) -> tuple[str | None, str | None]:
    """Return (flag, value) of an argument like `-b18` or `--passes=3`; the value is None if it is the next argument."""
    if arg in flags_by_name:
        return arg, None
    name, mark, value = arg.partition("=")
    if arg.startswith("--"):
        return (name, value) if mark and name in flags_by_name else (None, None)
    if arg[:2] in flags_by_name and flags_by_name[arg[:2]].value and len(arg) > 2 and arg[0] == "-":
        return arg[:2], arg[2:]
    return None, None


def _instead(name: str, flag: Flag, value: str, translated: list[str]) -> BadUsage:
    """Return the error for a flag that has no equivalent, with what to write instead."""
    data = next((arg for k, arg in enumerate(translated) if not arg.startswith("-") and _alone(translated, k)), "DATA")
    model = next(
        (translated[k + 1] for k, arg in enumerate(translated[:-1]) if arg in ("--model", "--resume")), "m.bayou"
    )
    instead = flag.instead.replace("{}", value).replace("DATA", data).replace("MODEL", model)
    return BadUsage(f"{name} is Vowpal Wabbit's: {instead}")


def _alone(args: list[str], k: int) -> bool:
    """Return whether argument k does not follow an option, so that it cannot be an option's value."""
    return k == 0 or not args[k - 1].startswith("-")


def _command(flags: list[Flag]) -> type[TyperCommand]:
    class Command(TyperCommand):
        """A command that takes Vowpal Wabbit's flags, too."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            options = [param for param in self.params if param.param_type_name == "option"]
            own_options = {name: not getattr(param, "is_flag", False) for param in options for name in param.opts}
            return super().parse_args(ctx, translate_flags(flags, args, own_options))

    return Command


# Command classes by name of the command.
KINDS: dict[str, type[TyperCommand]] = {"train": _command(TRAIN), "predict": _command(PREDICT)}
