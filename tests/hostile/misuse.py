"""Every public function, given the wrong thing: it answers with an error of bayou's, and nothing has changed.

What may be raised:
- bayou's own errors: `BadInput`, `BadModel`, `NoPosterior`, `WrongTask`;
- `TypeError` by Python itself, for arguments that the function does not have: no frame of bayou has run by then;
- by scikit-learn's faces also what scikit-learn's own validation raises, for that is how its users know it, and by
  river's what river itself raises;
- `ImportError` where an extra is not installed.
Wrong is any other error, a call that takes more than a minute or more memory than the process has, and an object that
a refused call has changed. What the junk itself raises when it is looked at (`Unfriendly`) is its own.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
import re
import signal
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bayou
from bayou import Batch, estimators, evaluate, learners, river, simulate, sources
from bayou.core import registry
from bayou.core.state import contents_of
from bayou.recipe.recipe import Column
from tests.hostile import apart
from tests.hostile.counts import Counts, rounds
from tests.hostile.junk import things

OURS = (bayou.BadInput, bayou.BadModel, bayou.NoPosterior, bayou.WrongTask)
SECONDS = 60
HERE = str(Path(bayou.__file__).parent)
# What bayou makes and nobody else: its results, and what they are made of.
RESULTS = {
    "ClassEvaluation", "Evaluation", "Hindsight", "PredictedBatch", "RegressionEvaluation", "Simulation", "Source",
    "BadInput", "BadModel", "NoPosterior", "WrongTask", "__version__", "BATCH_SIZE", "FORMATS", "GENERATORS",
    "estimators", "evaluate", "learners", "simulate", "sources"
}  # fmt: skip

X = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 0.0]])
Y = np.array([1, 0, 1, 0])


class Call:
    """A call that would go well: a callable, and its arguments by name."""

    def __init__(self, name: str, make: Callable[[], tuple[Callable[..., Any], Any]], /, **good: Any) -> None:
        """`make` gives the callable, and the object that a refused call must leave as it was."""
        self.name, self.make, self.good = name, make, good


def _batch() -> Batch:
    return Batch.from_csr(X, Y)


def _learner(name: str = "marginal") -> Any:
    learner = registry.find(name).load()(n_features=3)
    learner.learn(_batch())
    return learner


def _own(function: Callable[..., Any]) -> Callable[[], tuple[Callable[..., Any], Any]]:
    return lambda: (function, None)


def _method(make: Callable[[], Any], name: str) -> Callable[[], tuple[Callable[..., Any], Any]]:
    def bound() -> tuple[Callable[..., Any], Any]:
        owner = make()
        return getattr(owner, name), owner

    return bound


def _defaults(function: Callable[..., Any], **good: Any) -> dict[str, Any]:
    """The arguments that can be given by name, with the defaults that they have."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return {p.name: p.default for p in parameters if p.default is not p.empty} | good


def _constructed(kind: Any, then: Callable[[Any], Any]) -> Callable[..., Any]:
    def build(**arguments: Any) -> Any:
        return then(kind(**arguments))

    return build


def _all_of(iterator: Any) -> list[Any]:
    return list(iterator)


def _calls() -> Iterator[Call]:
    yield from _calls_of_batches()
    yield from _calls_of_learners()
    yield from _calls_of_estimators()
    yield from _calls_of_evaluation()
    yield from _calls_of_sources()
    yield from _calls_of_river()
    yield from _calls_of_spark()


def _calls_of_batches() -> Iterator[Call]:
    arrays = {"indptr": np.array([0, 1, 2]), "indices": np.array([0, 2]), "values": np.ones(2)}
    more = {"labels": [1, 0], "weights": [1.0, 2.0], "tags": ["a", "b"], "positions": [1, 2]}
    dense = {"X": X, "y": Y, "weights": np.ones(4), "tags": list("abcd"), "positions": [1, 2, 3, 4]}
    yield Call("Batch.from_csr", _own(Batch.from_csr), **dense)
    yield Call("Batch.from_rows", _own(Batch.from_rows), rows=[{0: 1.0}, {}], **more)
    yield Call("Batch.from_arrays", _own(Batch.from_arrays), **arrays, **more)
    yield Call("Batch.concatenate", _own(Batch.concatenate), batches=[_batch(), _batch()])
    yield Call("Batch.take", _method(_batch, "take"), rows=[0])
    yield Call("Batch.astype", _method(_batch, "astype"), dtype="float32")
    yield Call("Batch.with_labels", _method(_batch, "with_labels"), labels=Y, weights=np.ones(4))
    yield Call("Batch.with_positions", _method(_batch, "with_positions"), positions=Y)
    yield Call("Batch.with_groups", _method(_batch, "with_groups"), groups=np.zeros(_batch().nonzeros, int))
    yield Call("Batch.to_csr", _method(_batch, "to_csr"), n_features=3)
    yield Call("Batch.row_of", _method(_batch, "row_of_nonzero"), k=0)
    yield Call("Batch[]", lambda: ((lambda rows: _batch()[rows]), None), rows=slice(1))


def _calls_of_rounds() -> Iterator[Call]:
    base = _learner()
    gain = bayou.rounds.learn_shard(base, [_batch()], 2.0)
    summed = bayou.rounds.add([gain])

    def on_base(function: Callable[..., Any]) -> Callable[[], tuple[Callable[..., Any], Any]]:
        def make() -> tuple[Callable[..., Any], Any]:
            fresh = _learner()
            return (lambda **given: function(**{"base": fresh, **given})), fresh

        return make

    yield Call("rounds.plan", _own(bayou.rounds.plan), rows=100, shards=2, base=10, least=5)
    yield Call("rounds.learn_shard", _own(bayou.rounds.learn_shard), base=base, batches=[_batch()], weight=2.0, task=1)
    yield Call("rounds.learn_part", _own(bayou.rounds.learn_mergeable), learner=_learner(), batch=_batch(), weight=2.0)
    yield Call("rounds.gain", _own(bayou.rounds.gain), learner=_learner(), base=base, task=1)
    yield Call("rounds.add", _own(bayou.rounds.add), gains=[gain])
    yield Call("rounds.apply", on_base(bayou.rounds.apply), summed=summed, weight=2.0)
    yield Call("rounds.discount", _own(bayou.rounds.discount), learner=_learner(), share=0.5)
    yield Call("rounds.to_bytes", _own(bayou.rounds.to_bytes), learner=base)
    yield Call("rounds.from_bytes", _own(bayou.rounds.from_bytes), data=bayou.rounds.to_bytes(base))


def _calls_of_learners() -> Iterator[Call]:
    for record in registry.own_records():
        kind, name = record.load(), record.name

        def fresh(name: str = name) -> Any:
            return _learner(name)

        def learned(learner: Any) -> Any:
            learner.learn(_batch()[:2])

        yield Call(kind.__name__, _own(_constructed(kind, learned)), **_defaults(kind, n_features=3))
        for method in ("learn", "observe", "check", "predict"):
            yield Call(f"{kind.__name__}.{method}", _method(fresh, method), batch=_batch())
        yield Call(f"{kind.__name__}.sample", _method(fresh, "sample"), batch=_batch(), n_draws=2, seed=0)
        yield Call(f"{kind.__name__}.weights_at", _method(fresh, "weights_at"), features=[0, 2])
        yield Call(f"{kind.__name__}.merge", _method(fresh, "merge"), other=fresh(), base=None)
        yield Call(f"{kind.__name__}.save", _method(fresh, "save"), path="m.bayou")
        yield Call(f"{kind.__name__}.memory_for", _own(kind.memory_for), n_features=3)
        yield Call(f"{kind.__name__}.nbytes_for", _method(fresh, "nbytes_for"), n_features=3)
    yield Call("Lasso.at_penalty", _method(lambda: _learner("lasso"), "at_penalty"), penalty=1.0)
    yield Call("Shrinkage.penalty_at", _method(lambda: _learner("shrinkage"), "penalty_at"), example=3)
    settle = "iterate_to_convergence"
    yield Call(f"Shrinkage.{settle}", _method(lambda: _learner("shrinkage"), settle), iterations=3)
    yield Call("Bank.recombine", _method(lambda: _learner("bank"), "recombine"), batches=[_batch()])
    yield from _calls_of_rounds()
    yield Call("load", _own(bayou.load), path="m.bayou")
    correction = "with_sampling_correction", "negative_rate"
    for method, argument in (("interval", "level"), ("log_interval", "level"), correction):
        yield Call(f"Prediction.{method}", _method(lambda: _learner().predict(_batch()), method), **{argument: 0.5})
    yield Call("Weights.interval", _method(lambda: _learner().weights_at([0]), "interval"), level=0.9)


def _calls_of_estimators() -> Iterator[Call]:
    for name in estimators.__all__:
        kind = getattr(estimators, name)
        y = Y * 1.5 if name.endswith("Regressor") else Y

        def fitted(kind: Any = kind, y: Any = y) -> Any:
            return kind().fit(X, y)

        def fit(estimator: Any, y: Any = y) -> Any:
            return estimator.fit(X, y)

        yield Call(name, _own(_constructed(kind, fit)), **_defaults(kind))
        for method in ("fit", "partial_fit"):
            arguments = {"X": X, "y": y, "sample_weight": np.ones(4)}
            if "classes" in inspect.signature(getattr(kind, method)).parameters:
                arguments["classes"] = [0, 1]
            able = fitted if hasattr(fitted(), method) else kind  # a lasso of several passes does not go on
            yield Call(f"{name}.{method}", _method(able, method), **arguments)
        asked = ("predict", "predict_proba", "decision_function", "predict_log_proba", "transform", "inverse_transform")
        for method in asked:
            if hasattr(fitted(), method):
                yield Call(f"{name}.{method}", _method(fitted, method), X=X[:, :1] if "inverse" in method else X)
        for method, more in {
            "predict_interval": {"level": 0.9},
            "sample_proba": {"n_draws": 2, "random_state": 0},
            "sample_mean": {"n_draws": 2, "random_state": 0},
            "path": {"y": y, "penalties": [1.0], "sample_weight": None},
            "score": {"y": y, "sample_weight": None},
        }.items():
            if hasattr(fitted(), method):
                yield Call(f"{name}.{method}", _method(fitted, method), X=X, **more)


def _calls_of_evaluation() -> Iterator[Call]:
    def told(learner: Any, batch: Any) -> Any:
        return evaluate.predict_then_learn(_learner() if learner is _learner else learner, batch)

    progressive = _defaults(evaluate.progressive, batches=[_batch()], truth=np.zeros(3))
    yield Call("progressive", lambda: (evaluate.progressive, None), learner=_learner(), **progressive)
    yield Call("predict_then_learn", _own(told), learner=_learner, batch=_batch())
    for name in ("best_fixed_weights", "least_squares"):
        function = getattr(evaluate, name)
        yield Call(name, _own(function), **_defaults(function, batches=[_batch()], n_features=3))
    losses = {"batch": _batch(), "weights": np.zeros(3), "intercept": 0.0, "link": 0}
    yield Call("comparator_losses", _own(evaluate.comparator_losses), **losses)
    yield Call("meter_for", _own(evaluate.meter_for), task="binary", regret=False, curve_points=3)
    scored = {"labels": Y, "weights": np.ones(4), "comparator_losses": None, "nonzeros": 3}
    for kind, own in ((evaluate.Meter, {}), (evaluate.RegressionMeter, {"nearer": None})):
        yield Call(kind.__name__, _own(kind), regret=False, curve_points=3)
        yield Call(f"{kind.__name__}.add", _method(kind, "add"), predictions=np.full(4, 0.5), **scored, **own)
    several = {**scored, "predictions": np.full((4, 2), 0.5), "classes": [0, 1], "unseen": np.zeros(4)}
    yield Call("ClassMeter", _own(evaluate.ClassMeter), regret=False, curve_points=3)
    yield Call("ClassMeter.add", _method(evaluate.ClassMeter, "add"), **several)
    for name, function in simulate.GENERATORS.items():

        def streamed(function: Any = function, **arguments: Any) -> Any:
            return next(function(**arguments).batches(3))

        small = {"n_categories": 3} if name == "longtail" else {}
        yield Call(name, _own(streamed), **_defaults(function, **small))

    def batches(**arguments: Any) -> Any:
        return next(simulate.random(20).batches(**arguments), None)  # of 0 examples there are none

    yield Call("Simulation.batches", _own(batches), n_examples=3, batch_size=2, start=0)


def _calls_of_sources() -> Iterator[Call]:
    import pyarrow as pa

    Path("d.svm").write_text("1 0:1 2:2\n-1 1:1\n1 0:1\n-1 2:3\n")
    table = pa.table({"s": ["a", "b"] * 6, "n": [1.5, None] * 6, "w": [1, 2] * 6, "y": [1, 0] * 6})
    _learner().save("good.bayou")
    bank = learners.Bank(n_features=3, head=2)
    bank.learn(_batch())
    bank.save("head.bayou")
    opened = _defaults(sources.open)

    def read(**arguments: Any) -> Any:
        return _all_of(sources.open(**arguments))

    def predicted(**arguments: Any) -> Any:
        return bayou.predict(**arguments).to_arrow()

    yield Call("sources.open (svmlight)", _own(read), data="d.svm", **opened)
    yield Call("sources.open (table)", _own(read), data=table, **opened | {"recipe": {"label": "y", "bits": 8}})
    yield Call("Recipe", _own(sources.Recipe), **_defaults(sources.Recipe))
    yield Call("Column", _own(Column), **_defaults(Column, name="x", role="bins"))
    yield Call("Recipe.from_json", _own(sources.Recipe.from_json), plain={})
    yield Call("Extras.new", _own(sources.Extras.new), recipe=sources.Recipe())
    yield Call("Extras.of", _own(sources.Extras.of), learner=_learner())
    recipe = {
        "bits": 8, "label": "y", "positive": None, "label_above": None, "weight": "w", "ignore": [], "numeric": [],
        "category": [], "text": [], "bins": 5, "cross": [("s", "n")], "interactions": ["ns"], "exact": False,
        "hash_all": None, "negative_rate": 1.0, "task": "auto", "date": [], "missing": [], "decimal": None, "ngrams": 1,
        "char_ngrams": 0, "slope": "rank",
    }  # fmt: skip
    run = {
        "format": "auto", "on_error": "skip", "threads": 0, "on_note": None, "on_progress": None, "learner": "marginal",
        "settings": (), "passes": 1, "holdout": 0.0, "model": None, "resume": None, "like": None, "checkpoint": None,
        "report": None, "shards": None, "processes": 1,
    }  # fmt: skip
    yield Call("train (table)", _own(bayou.train), data=table, **recipe, **_known(run))
    yield Call("train (svmlight)", _own(bayou.train), data="d.svm", bits=8, **_known(run))
    reading = {"format": "auto", "on_error": "skip", "threads": 0, "on_note": None}
    yield Call("look", _own(bayou.look), data=table, **recipe, **reading)
    asked = {
        "keep": (),
        "level": 0.9,
        "quantiles": (),
        "tags": None,
        "format": "auto",
        "on_error": "skip",
        "threads": 0,
    }
    yield Call("predict", _own(predicted), data="d.svm", model="good.bayou", **asked)
    shown = {"by": "mean", "view": "model", "per_class": 5, "class_name": None, "selected": False, "index": False}
    yield Call("features", _own(bayou.features), model="good.bayou", top=5, pairs=False, **shown)
    yield Call("posterior", _own(bayou.posterior), model="head.bayou")
    yield Call("contrast", _own(bayou.contrast), **_defaults(bayou.contrast, model="good.bayou", weights={"a=1": 1.0}))


def _known(options: dict[str, Any]) -> dict[str, Any]:
    from bayou.runs.train import TrainingOptions

    return {name: value for name, value in options.items() if name in (*_names(TrainingOptions), "on_progress")}


def _names(kind: Any) -> set[str]:
    return set().union(*(getattr(base, "__annotations__", {}) for base in (kind, *getattr(kind, "__orig_bases__", ()))))


def _calls_of_river() -> Iterator[Call]:
    rows = [{"a": 1.0, "b": "x"}, {"a": None}, {}, {"c": True}]

    def made(**arguments: Any) -> Any:
        return river.Classifier(**arguments).learn_one({"a": 1.0}, True)

    def model() -> Any:
        return river.Classifier("marginal", bits=6)

    good = {"learner": "marginal", "bits": 6, "hashing": True, "classes": (False, True), "prior_variance": 1.0}
    yield Call("river.Classifier", _own(made), **good)
    yield Call("river.learn_one", _method(model, "learn_one"), x=rows[0], y=True, w=1.0)
    yield Call("river.learn_many", _method(model, "learn_many"), X=rows, y=[True, False] * 2, w=1.0)
    for method in ("predict_one", "predict_proba_one"):
        yield Call(f"river.{method}", _method(model, method), x=rows[0])
    for method in ("predict_many", "predict_proba_many"):
        yield Call(f"river.{method}", _method(model, method), X=rows)


def _calls_of_spark() -> Iterator[Call]:
    """What they say before Spark is started: that this is no Parquet file, no DataFrame."""

    def called(name: str) -> Callable[[], tuple[Callable[..., Any], Any]]:
        return _own(lambda **arguments: getattr(importlib.import_module("bayou.spark"), name)(**arguments))

    options = {"label": "y", "learner": "marginal", "folder": None, "bits": 8, "settings": (), "on_error": "skip"}
    plan = {"shards": 2, "passes": 1, "held_out": None, "base_rows": None, "order": "mixed", "seed": 0, "least": 5_000}
    yield Call("spark.train", called("train"), data="d.svm", model=None, on_progress=None, **options, **plan)
    yield Call("spark.foreach_batch", called("foreach_batch"), model="s.bayou", large=1, **options)
    more = {"level": 0.9, "keep": None, "on_error": "raise"}
    yield Call("spark.transform", called("transform"), df=None, model="good.bayou", **more)


def public_names() -> set[str]:
    """All that people can call, but for what bayou alone makes."""
    modules = (bayou, estimators, evaluate, simulate, sources)
    return {name for module in modules for name in module.__all__} | set(learners.__all__) - RESULTS


# --- what is right ------------------------------------------------------------------------------------------------


def _state(owner: Any) -> Any:
    """All there is in an object, for comparing."""
    if owner is None:
        return None
    if hasattr(owner, "saved"):
        header, arrays = contents_of(owner)
        return repr(header), {name: array.tobytes() for name, array in arrays.items()}
    if isinstance(owner, Batch):
        return [pickle.dumps(array) for array in vars(owner).values()]
    return {name: _state(part) if hasattr(part, "saved") else pickle.dumps(part) for name, part in _parts(owner)}


def _parts(owner: Any) -> list[tuple[str, Any]]:
    simple = (types.FunctionType, types.MethodType)
    found = vars(owner) if hasattr(owner, "__dict__") else {}
    # What scikit-learn's validation notes down of a matrix, a call that is refused later has noted, too.
    noted = ("n_features_in_", "feature_names_in_")
    kept = {name: part for name, part in found.items() if name not in noted and not isinstance(part, simple)}
    return [(name, part) for name, part in kept.items() if _can_be_kept(part)]


def _can_be_kept(part: Any) -> bool:
    try:
        pickle.dumps(part)
    except Exception:
        return False
    return True


def _allowed(call: Call, error: BaseException) -> bool:
    if isinstance(error, (*OURS, ImportError)):
        return True
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if "no length today" in str(error) or "nothing to see" in str(error):
        return True
    if isinstance(error, TypeError) and not any(name.startswith(HERE) for name in frames):
        return True
    theirs = ("sklearn",) if call.name.split(".")[0] in estimators.__all__ else ("river/base", "river/utils")
    last = next((name for name in reversed(frames) if name.startswith(HERE) or any(t in name for t in theirs)), "")
    return any(t in last for t in theirs)


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"no answer within {SECONDS} seconds")


def _wrong(call: Call, arguments: dict[str, Any]) -> str:
    function, owner = call.make()
    before = _state(owner)
    signal.alarm(SECONDS)
    try:
        function(**arguments)
        return ""
    except BaseException as error:
        signal.alarm(0)
        if not _allowed(call, error):
            return "".join(traceback.format_exception(error, limit=-3))
        refused = str(error)
    finally:
        signal.alarm(0)
    return "" if _state(owner) == before else f"it was refused ({refused}), and yet it has changed something"


def sweep(seconds: float, seed: int, say: Callable[[str], Any]) -> Counts:
    """A round gives every argument of every call one wrong thing, another in each round; two in every other."""
    counts = Counts()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGALRM, _too_long)
    calls = list(_calls())
    missing = public_names() - RESULTS - {part for call in calls for part in re.split(r"[. ]", call.name)}
    counts.check(not missing, f"nothing calls {', '.join(sorted(missing))}")
    for call in calls:
        wrong = _wrong(call, copy.copy(call.good))
        counts.check(not wrong, f"{call.name}, rightly used: {wrong}")
    for number in rounds(seconds):
        rng = np.random.default_rng([seed, number])
        for call in calls:
            for name in call.good:
                junk, arguments = things(), dict(call.good)
                spoiled = [name, *([str(rng.choice(list(call.good)))] if number % 2 else [])]
                for one in spoiled:
                    arguments[one] = junk[int(rng.integers(len(junk)))]
                if any(_rightly(call.name, one, arguments[one]) for one in spoiled):
                    continue
                told = f"{call.name}({', '.join(f'{one}={_shown(arguments[one])}' for one in spoiled)})"
                say(told)
                wrong = _wrong(call, arguments)
                counts.check(not wrong, f"{told}: {wrong}")
                counts.add("calls")
    return counts


def _rightly(call: str, name: str, thing: Any) -> bool:
    """Whether the thing is none of bayou's business: a long way that somebody wants to go, or a function of theirs.

    Nor is a sparse matrix whose arrays do not fit together, given to scikit-learn: its kernels look at it first, and
    crash.
    """
    if call.split(".")[0] in estimators.__all__ and hasattr(thing, "check_format"):
        try:
            thing.check_format()
        except ValueError:
            return True
    most = {"passes": 10**4, "iterations": 10**4, "n_points": 10**4, "n_features": 2**28}
    long = isinstance(thing, int) and thing > most.get(name, math.inf)
    return long or ((name.startswith("on_") or name == "batches") and callable(thing))


def _shown(thing: Any) -> str:
    try:
        return f"{type(thing).__name__} {repr(thing)[:80]}"
    except Exception:
        return type(thing).__name__


def attack(seconds: float, seed: int) -> Counts:
    return apart.run("misuse", seconds, seed)
