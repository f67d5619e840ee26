"""The cases of `compare_commits.py`, run by either side with its own Python: commit_cases.py INPUTS OUT [PATTERN ...]

A case drives bayou as its users do: by the command, the server, and the public names of Python. It knows no module of
bayou but those that users import, so that it runs with any commit. What comes out lies in a folder for each case,
as files whose suffix tells `compare_commits.py` how to read them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import commit_inputs
import numpy as np
import scipy.sparse as sp

# What each learner of the command does. One that is not listed is reported as not covered.
CLASSIFIERS = (
    "bank", "marginal", "joint", "moment", "variational", "adagrad", "ftrl", "spike-slab", "lasso",
)  # fmt: skip
REGRESSORS = ("bank", "gaussian", "shrinkage", "number-bank")
TASKS = {"binary": "y", "multiclass": "kind", "regression": "size"}
# The table has labels of three tasks: two of them are left out, and the weights are used in cases of their own.
OTHERS = {task: ",".join([*(c for t, c in TASKS.items() if t != task), "w"]) for task in TASKS}
FORMATS = {
    "svmlight": ("svm", []),
    "vw": ("vw", []),
    "tsv": ("tsv", ["--label", "y", "--ignore", "kind,size,w"]),
    "criteo": ("criteo", ["--format", "criteo"]),
    "parquet": ("parquet", ["--label", "y", "--ignore", "kind,size,w"]),
    "csv.gz": ("csv.gz", ["--label", "y", "--ignore", "kind,size,w"]),
    "csv.zst": ("csv.zst", ["--label", "y", "--ignore", "kind,size,w"]),
}
TABLE = ["--label", "y", "--ignore", "kind,size,w"]
SMALL = ["--bits", "12"]
# Options of a training, for `marginal` and `bank` from CSV.
OPTIONS = {
    "weights": ["--label", "y", "--ignore", "kind,size", "--weight", "w"],
    "crosses": [*TABLE, "--cross", "site,device"],
    "all crosses": [*TABLE, "--cross", "auto"],
    "three columns crossed": [*TABLE, "--cross", "site,device,day"],
    "text": [*TABLE, "--text", "title", "--ngrams", "2", "--char-ngrams", "3"],
    "roles": [*TABLE, "--numeric", "age,income", "--category", "day", "--bins", "7"],
    "exact numbers": [*TABLE, "--exact"],
    "negative rate": [*TABLE, "--negative-rate", "0.2"],
    "label above": ["--label", "size", "--label-above", "3", "--ignore", "y,kind,w"],
    "last tenth held out": [*TABLE, "--holdout", "0.1"],
    "random tenth held out": [*TABLE, "--holdout", "random:0.1"],
    "late labels": [*TABLE, "--delay", "200"],
    "missing": [*TABLE, "--missing", "phone"],
    "one thread": [*TABLE, "--threads", "0"],
}
BANKS = {
    "wide": ["--set", "preset=wide"],
    "crosses learned": ["--pairs", "crosses"],
    "factors learned": ["--pairs", "factors"],
    "pairs that pay": ["--pairs", "auto,factors"],
    "fixed shares": ["--set", "combine=share"],
    "narrowing": ["--set", "narrowing=true"],
}
# Learners in Python: parameters that name their variants, as DESIGN has them.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "Marginal": [
        {}, {"link": "probit"}, {"mean_update": "newton", "variance_update": "peak"}, {"predictive": "quadrature"},
        {"temper": (0.7, 0.3), "memory": 0.001}, {"dtype": "float64"}, {"intercept": False, "prior_variance": 0.3},
    ],
    "Joint": [{}, {"covariance": "full"}, {"mean_update": "taylor"}],
    "Moment": [{}, {"expectation": "probit"}, {"link": "probit"}],
    "Variational": [{}, {"expectation": "monte-carlo", "n_points": 20, "seed": 5}, {"mean_update": "taylor"}],
    "AdaGrad": [{}, {"learning_rate": 0.3, "l2": 0.01}],
    "FTRL": [{}, {"l1": 0.4, "l2": 0.1}],
    "Bank": [{}, {"preset": "wide"}, {"combine": "share"}, {"narrowing": True}, {"dtype": "float64"}],
    "SpikeSlab": [{}, {"inclusion_prior": 0.3, "refresh_every": 50}, {"predictive": "full"}],
    "Lasso": [{}, {"algorithm": "multipass"}, {"algorithm": "reduced", "penalty": 2.0}, {"penalty": 0.5}],
    "Shrinkage": [{}, {"penalty": 0.5, "ramp": 30}],
    "Gaussian": [{}, {"noise_variance": 2.0}, {"dtype": "float64"}],
    "NumberBank": [{}],
    "Forest": [{}],
    "Classes": [{}, {"learner": "marginal"}],
}  # fmt: skip
OF_NUMBERS = {"Shrinkage", "Gaussian", "NumberBank"}
ESTIMATORS = {
    "MarginalClassifier", "JointClassifier", "MomentClassifier", "VariationalClassifier", "BankClassifier",
    "SpikeSlabClassifier", "LassoClassifier", "AdaGradClassifier", "FTRLClassifier",
}  # fmt: skip
NUMBER_ESTIMATORS = {"ShrinkageRegressor", "GaussianRegressor", "BankRegressor"}
SEVERAL_ESTIMATORS = ("BankClassifier", "MarginalClassifier")
WITHOUT_POSTERIOR = {"AdaGradClassifier", "FTRLClassifier", "LassoClassifier"}
N_FEATURES = 300


class Failed(Exception):
    """A command or request of a case did not do what it should."""


class Case:
    """One case: the inputs, and a folder for what comes out of it, which is the working directory meanwhile."""

    def __init__(self, inputs: Path, folder: Path) -> None:
        self.inputs, self.folder = inputs, folder

    def data(self, name: str) -> str:
        return str(self.inputs / name)

    def bayou(self, *arguments: str, to: str | None = None) -> str:
        """Run a command within this process; return (and write to the file `to`) what it puts on standard output."""
        from bayou.cli import main  # as the command that is installed does

        with _captured(self.folder / ".errors") as errors, _captured(self.folder / (to or ".output")) as output:
            old, sys.argv = sys.argv, ["bayou", *arguments]
            code: Any = 0
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            finally:
                sys.argv = old
        if code:
            raise Failed(f"bayou {' '.join(arguments)}: exit code {code}: {errors.read_text()[-2000:]}")
        return output.read_text()

    def process(self, *arguments: str, to: str) -> None:
        """Run a command in a process of its own."""
        done = subprocess.run([sys.executable, "-m", "bayou", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"bayou {' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        (self.folder / to).write_text(done.stdout)

    def train(self, *arguments: str) -> None:
        self.bayou("train", *arguments, "--model", "model.bayou", "--json", "--quiet", to="train.json")

    def predict(self, data: str, *arguments: str, name: str = "predictions") -> None:
        for horizon in ("next", "later"):
            out = f"{name} {horizon}.csv"
            self.bayou("predict", data, "--model", "model.bayou", "--horizon", horizon, "--out", out, *arguments)

    def describe(self) -> None:
        """What the model is said to be."""
        self.bayou("features", "model.bayou", "--top", "1000", "--out", "features.csv")
        self.bayou("info", "model.bayou", "--json", to="info.json")
        self.bayou("info", "model.bayou", to="info.txt")

    def json(self, name: str, value: Any) -> None:
        (self.folder / f"{name}.json").write_text(json.dumps(value, default=_plain))

    def names(self, name: str, found: Any) -> None:
        """Write what must not disappear."""
        (self.folder / f"{name}.names").write_text("".join(f"{each}\n" for each in sorted(set(found))))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextlib.contextmanager
def _captured(path: Path) -> Iterator[Path]:
    """What is written to standard error (for `.errors`) or output goes into a file, whoever writes it."""
    stream, number = (sys.stderr, 2) if path.name == ".errors" else (sys.stdout, 1)
    stream.flush()
    saved = os.dup(number)
    with path.open("wb") as file:
        os.dup2(file.fileno(), number)
    python = (sys.stdout, sys.stderr)
    try:
        yield path
    finally:
        for each in (sys.stdout, sys.stderr):
            each.flush()
        sys.stdout, sys.stderr = python  # the command puts its own in their place
        os.dup2(saved, number)
        os.close(saved)


# ----------------------------------------------------------------------------------------------------- the command


def train_csv(learner: str, task: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        rows, roles = case.data("rows.csv"), ["--label", TASKS[task], "--ignore", OTHERS[task]]
        bits = ["--bits", "8"] if learner == "shrinkage" else SMALL
        case.train(rows, "--learner", learner, "--task", task, *roles, *bits, "--report", "report.html")
        case.predict(case.data("new.csv"), "--keep", "site,day")
        if learner in ("bank", "marginal"):
            case.predict(case.data("new.csv"), "--explain", "2", "--level", "0.8", name="explained")
            case.bayou("predict", case.data("new.csv"), "--model", "model.bayou", "--out", "p.parquet")
        case.describe()

    return run


def train_jsonl(learner: str, task: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        rows, roles = case.data("rows.jsonl"), ["--label", TASKS[task], "--ignore", OTHERS[task]]
        bits = ["--bits", "8"] if learner == "shrinkage" else SMALL
        case.train(rows, "--learner", learner, "--task", task, *roles, *bits)
        case.predict(case.data("new.jsonl"))
        case.describe()

    return run


def train_format(learner: str, suffix: str, options: list[str]) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        case.train(case.data(f"rows.{suffix}"), "--learner", learner, *SMALL, *options)
        case.predict(case.data(f"new.{suffix}"), *(options if options[:1] == ["--format"] else []))
        case.describe()

    return run


def train_options(learner: str, options: list[str]) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        case.train(case.data("rows.csv"), "--learner", learner, *SMALL, *options)
        case.predict(case.data("new.csv"))
        case.describe()

    return run


def banks(options: list[str]) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        case.train(case.data("rows.csv"), *SMALL, *TABLE, *options, "--report", "report.html")
        case.predict(case.data("new.csv"))
        case.describe()
        if "--pairs" in options:
            case.bayou("features", "model.bayou", "--pairs", "--top", "100", "--out", "pairs.csv")
        case.bayou("features", "model.bayou", "--by", "column", "--view", "associated", to="columns.txt")

    return run


def many_rows(learner: str) -> Callable[[Case], None]:
    """More rows than one batch has, and than those that decide what the columns are."""

    def run(case: Case) -> None:
        case.train(case.data("many.csv"), "--learner", learner, "--bits", "16", *TABLE, "--report", "report.html")
        case.predict(case.data("new.csv"))
        case.describe()

    return run


def passes(case: Case) -> None:
    case.train(case.data("rows.svm"), "--learner", "lasso", *SMALL, "--set", "algorithm=multipass", "--passes", "3")
    case.predict(case.data("new.svm"))
    case.bayou("train", case.data("rows.svm"), "--learner", "ftrl", *SMALL, "--passes", "2", "--model", "ftrl.bayou")


def vw_flags(case: Case) -> None:
    options = ["-b", "12", "-q", "ps", "--loss_function", "logistic", "-f", "model.bayou"]
    case.bayou("train", "-d", case.data("rows.vw"), *options, "--quiet")
    case.predict(case.data("new.vw"))
    case.describe()


def svmlight_groups(case: Case) -> None:
    case.train(case.data("rows.svm"), *SMALL, "--groups", "a=1-20,b=21-300", "--cross", "a,b")
    case.predict(case.data("new.svm"))


def resume(learner: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        case.bayou("train", case.data("part1.svm"), "--learner", learner, *SMALL, "--model", "first.bayou", "--quiet")
        case.train(case.data("part2.svm"), "--resume", "first.bayou")
        case.bayou("train", case.data("part2.svm"), "--like", "first.bayou", "--model", "like.bayou", "--quiet")
        case.predict(case.data("new.svm"))

    return run


def merge(learner: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        for part in ("part1", "part2"):
            data = case.data(f"{part}.svm")
            case.bayou("train", data, "--learner", learner, *SMALL, "--model", f"{part}.bayou", "--quiet")
            case.bayou("train", data, "--resume", "part1.bayou", "--model", f"{part} on.bayou", "--quiet")
        case.bayou("merge", "part1.bayou", "part2.bayou", "--out", "model.bayou")
        based = ["--base", "part1.bayou", "--out", "based.bayou"]
        case.bayou("merge", "part1 on.bayou", "part2 on.bayou", *based)
        if learner == "bank":
            again = ["--recombine", case.data("rows.svm"), "--out", "recombined.bayou"]
            case.bayou("merge", "part1.bayou", "part2.bayou", *again)
        case.predict(case.data("new.svm"))

    return run


def rounds(learner: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        data = ["train", case.data("many.csv"), *TABLE, "--learner", learner, "--bits", "16", "--processes", "2"]
        case.process(*data, "--model", "model.bayou", "--json", "--quiet", to="train.json")
        case.predict(case.data("new.csv"))

    return run


def select(case: Case) -> None:
    sizes = ["--sizes", "3,10,30", *SMALL, "--out", "path.csv", "--json", "--quiet"]
    case.bayou("select", case.data("rows.svm"), *sizes, to="select.json")


def compare(task: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        roles = ["--label", TASKS[task], "--ignore", OTHERS[task], "--task", task, *SMALL]
        case.bayou("compare", case.data("rows.csv"), *roles, "--csv", "curves.csv", "--json", to="compare.json")

    return run


def look(case: Case) -> None:
    for suffix in ("csv", "jsonl", "parquet"):
        case.bayou("look", case.data(f"rows.{suffix}"), "--label", "y", "--json", to=f"{suffix}.json")


def features(case: Case) -> None:
    for learner, chosen in {
        "spike-slab": ["--by", "inclusion"],
        "ftrl": ["--selected"],
        "marginal": ["--index"],
    }.items():
        model = f"{learner}.bayou"
        sparse = ["--set", "l1=2"] if learner == "ftrl" else []
        case.bayou("train", case.data("rows.csv"), *TABLE, "--learner", learner, *sparse, "--model", model, "--quiet")
        case.bayou("features", model, *chosen, "--out", f"{learner}.csv")
        case.bayou("features", model, *chosen, "--out", f"{learner}.json")
        if learner != "ftrl":  # which has no standard deviations
            case.bayou("features", model, "--by", "z", to=f"{learner} z.txt")


def simulate(case: Case) -> None:
    for kind in ("random", "nonbinary", "categorical", "longtail", "groups"):
        case.bayou(
            "simulate", kind, "--examples", "500", "--seed", "3", "--out", f"{kind}.svm", "--truth", f"{kind}.npz"
        )


def real_process(case: Case) -> None:
    """The command as it is started: through a pipe, in a process of its own."""
    case.process("train", case.data("rows.csv"), *TABLE, *SMALL, "--model", "model.bayou", "--json", to="train.json")
    case.process("predict", case.data("new.csv"), "--model", "model.bayou", to="predictions.csv")


# ---------------------------------------------------------------------------------------------------------- Python


def batches() -> tuple[Any, Any, Any]:
    from bayou import Batch

    made = []
    for n, seed in ((1500, 11), (1500, 12), (300, 13)):
        indptr, indices, values, labels = commit_inputs.sparse_rows(n, seed, N_FEATURES)
        X = sp.csr_matrix((values, indices, indptr), shape=(n, N_FEATURES))
        made.append((X, labels, Batch))
    return tuple(made)


def learner_api(name: str, parameters: dict[str, Any]) -> Callable[[Case], None]:
    """A learner in Python: learn, predict, snapshot, merge, save, load."""

    def run(case: Case) -> None:
        import bayou

        parts = []
        for X, signs, Batch in batches():
            y = signs
            if name in OF_NUMBERS:
                y = np.asarray(X @ np.linspace(-1, 1, N_FEATURES)).ravel() + 0.1 * signs
            elif name == "Classes":
                y = (X.indptr[1:] - X.indptr[:-1]) % 3
            parts.append((Batch.from_csr(X, y), Batch.from_csr(X)))
        (first, _), (second, _), (_, questions) = parts
        kind = getattr(bayou.learners, name)
        more = {"classes": [0, 1, 2]} if name == "Classes" else {}
        learner, out = kind(n_features=N_FEATURES, **more, **parameters), {}
        out["learned"] = learner.learn(first)
        frozen = learner.snapshot()
        out["learned more"] = learner.learn(second)
        learner.end_pass()
        for title, model in {"now": learner, "snapshot": frozen}.items():
            for horizon in ("next", "later"):
                p = model.predict(questions, horizon=horizon)
                for what in ("probability", "mean", "variance", "log_odds"):
                    with contextlib.suppress(Exception):  # some have none
                        out[f"{title} {horizon} {what}"] = getattr(p, what)
                with contextlib.suppress(Exception):
                    out[f"{title} {horizon} interval"] = np.stack(p.interval(0.9))
        for what in ("mean", "variance", "intercept", "inclusion"):
            with contextlib.suppress(Exception):
                out[what] = np.asarray(getattr(learner, what))
        with contextlib.suppress(Exception):
            out["weights at"] = np.asarray(learner.weights_at([3, 7]))
        learner.save("model.bayou")
        again = bayou.load("model.bayou")
        out["loaded"] = again.predict(questions).mean
        np.savez("learner.npz", **{each: value for each, value in out.items() if value is not None})

    return run


def merge_api(name: str) -> Callable[[Case], None]:
    def run(case: Case) -> None:
        import bayou

        (X1, y1, Batch), (X2, y2, _), _ = batches()
        base = getattr(bayou.learners, name)(n_features=N_FEATURES)
        base.learn(Batch.from_csr(X1[:500], y1[:500]))
        base.save("base.bayou")
        parts = [bayou.load("base.bayou") for _ in range(2)]
        parts[0].learn(Batch.from_csr(X1[500:], y1[500:]))
        parts[1].learn(Batch.from_csr(X2, y2))
        parts[0].merge(parts[1], base=base).save("model.bayou")

    return run


def rounds_api(name: str) -> Callable[[Case], None]:
    """Two rounds of three shards, the second over the rows of the first: `--processes` needs more rows than these."""

    def run(case: Case) -> None:
        import bayou

        (X, y, Batch), (X2, y2, _), (X3, y3, _) = batches()
        base = getattr(bayou.learners, name)(n_features=N_FEATURES)
        base.learn(Batch.from_csr(X, y))
        rows = Batch.from_csr(X2, y2)
        parts = [rows.take(np.arange(k, len(rows), 3)) for k in range(3)]
        for weight, share in ((3.0, 1.0), (1.5, 0.5)):
            bayou.rounds.discount(base, share)
            gains = [bayou.rounds.learn_shard(base, [part], weight, task) for task, part in enumerate(parts)]
            bayou.rounds.apply(base, bayou.rounds.add(gains), 3.0)
        if name == "Bank":
            base.recombine([Batch.from_csr(X3, y3)], learn=True)
        base.save("model.bayou")

    return run


def estimator(name: str, several: bool = False) -> Callable[[Case], None]:
    """scikit-learn's face, on a dense and on a sparse matrix."""

    def run(case: Case) -> None:
        import bayou

        (X, y, _), (X2, y2, _), (new, _, _) = batches()
        X, X2, new = X[:, :40], X2[:, :40], new[:, :40]
        out = {}
        if name in NUMBER_ESTIMATORS:
            y, y2 = (np.asarray(A @ np.linspace(-1, 1, 40)).ravel() + 0.1 * s for A, s in ((X, y), (X2, y2)))
        elif several:
            y, y2 = (np.array(["a", "b", "c"])[np.diff(A.indptr) % 3] for A in (X, X2))
        for title, made in {"sparse": X, "dense": X.toarray()}.items():
            model = getattr(bayou, name)(random_state=0).fit(made, y)
            if hasattr(model, "partial_fit"):
                model.partial_fit(X2 if title == "sparse" else X2.toarray(), y2)
            if name in NUMBER_ESTIMATORS:
                out[f"{title} predict"] = model.predict(new)
                out[f"{title} interval"] = np.stack(model.predict_interval(new))
            else:
                out[f"{title} probability"] = model.predict_proba(new)
                out[f"{title} score"] = model.decision_function(new)
                if name not in WITHOUT_POSTERIOR:
                    out[f"{title} interval"] = np.stack(model.predict_interval(new))
                    out[f"{title} draws"] = model.sample_proba(new[:20], n_draws=5, random_state=1)
            for what in ("coef_", "coef_var_", "intercept_", "intercept_var_", "inclusion_", "lasso_coef_"):
                if hasattr(model, what):
                    out[f"{title} {what}"] = np.asarray(getattr(model, what))
        np.savez("estimator.npz", **out)

    return run


def frames(learner: str) -> Callable[[Case], None]:
    """`bayou.train`, `bayou.predict` and `bayou.look` of tables in memory."""

    def run(case: Case) -> None:
        import pyarrow.parquet as pq

        import bayou

        rows, new = (pq.read_table(case.inputs / f"{name}.parquet") for name in ("rows", "new"))
        for name, (table, questions) in {"arrow": (rows, new), "pandas": (rows.to_pandas(), new.to_pandas())}.items():
            model = f"{name}.bayou"
            options = {"label": "y", "ignore": ["kind", "size", "w"], "learner": learner, "bits": 12}
            run = bayou.train(table, model=model, report=f"{name}.html", **options)
            case.json(f"{name} evaluation", vars(run.evaluation))
            for level in (0.95, 0.8):
                predicted = bayou.predict(questions, model=model, level=level, keep=["site"]).to_arrow()
                case.json(f"{name} predictions {level}", predicted.to_pydict())
        case.json("look", bayou.look(rows, label="y").as_dict())

    return run


def river_face(case: Case) -> None:
    from bayou import river

    rows = [json.loads(line) for line in (case.inputs / "rows.jsonl").read_text().splitlines()[:400]]
    told = {}
    for learner in ("bank", "marginal"):
        model = river.Classifier(learner, bits=12)
        for row in rows:
            x = {name: row.get(name) for name in ("age", "income", "site", "device", "title")}
            told.setdefault(learner, []).append(model.predict_proba_one(x))
            model.learn_one(x, bool(row["y"]))
    case.json("predictions", {name: [list(p.items()) for p in rows] for name, rows in told.items()})


# ------------------------------------------------------------------------------------------------------ the server


class Server:
    """`bayou serve` on a free port."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "bayou", "serve", *arguments, "--port", "0"]
        with Path("server.log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.url = self._ready()

    def _ready(self) -> str:
        until = time.monotonic() + 300
        while time.monotonic() < until and self.process.poll() is None:
            said = Path("server.log").read_text()
            if found := re.search(r"https?://[\w.]+:\d+", said):
                with contextlib.suppress(OSError):
                    if urllib.request.urlopen(f"{found[0]}/readyz").status == 200:
                        return found[0]
            time.sleep(0.05)
        raise Failed(f"the server is not ready: {Path('server.log').read_text()[-2000:]}")

    def ask(self, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        """Return the status and what came back, as JSON where it is."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": kind} if data is not None else {})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        try:
            return {"status": status, "body": json.loads(text)}
        except ValueError:
            return {"status": status, "body": text}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)


def served_rows(case: Case) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (case.inputs / "rows.jsonl").read_text().splitlines()[:300]]
    return [{name: value for name, value in row.items() if name not in ("kind", "size", "w")} for row in rows]


def server(*arguments: str, trained: bool = False, task: str = "binary") -> Callable[[Case], None]:
    """Predictions, rows to learn, late labels, what the model is, a restart, and the log replayed."""

    def run(case: Case) -> None:
        start = list(arguments)
        if trained:
            roles = ["--label", TASKS[task], "--ignore", OTHERS[task], "--task", task]
            case.bayou("train", case.data("rows.csv"), *roles, *SMALL, "--model", "trained.bayou", "--quiet")
            start += ["--model", "trained.bayou"]
        rows = served_rows(case)
        for row in rows:
            row["label"] = row.pop("y")
        if trained:
            rows = [{**row, "y": row.pop("label")} for row in rows]
        label = "y" if trained else "label"
        questions = [{name: value for name, value in row.items() if name != label} for row in rows[:40]]
        told = Server(*start, "--data", "state")
        answers: dict[str, Any] = {}
        try:
            answers["before"] = told.ask("/predict", questions)
            answers["learn one"] = [told.ask("/learn", row) for row in rows[:20]]
            answers["learn many"] = [told.ask("/learn", rows[k : k + 50]) for k in range(20, len(rows), 50)]
            answers["predict one"] = told.ask("/predict", questions[0])
            answers["predict many"] = told.ask("/predict?level=0.8", questions)
            lines = "".join(f"{json.dumps(row)}\n" for row in questions).encode()
            answers["predict lines"] = told.ask("/predict", lines, "application/x-ndjson")
            answers["remember"] = [told.ask(f"/predict?id=r{k}", row) for k, row in enumerate(questions[:10])]
            answers["early"] = told.ask("/label", {"id": "r20", "label": 1})
            answers["label"] = [told.ask("/label", {"id": f"r{k}", "label": k % 2}) for k in range(5)]
            answers["labels"] = told.ask("/label", [{"id": f"r{k}", "label": k % 2, "weight": 2} for k in range(3, 12)])
            answers["joined early"] = told.ask("/predict?id=r20", questions[20])
            answers["bad rows"] = told.ask("/learn", [rows[0], {"age": [4], label: 1}])["status"]
            answers["bad path"] = told.ask("/nothing")["status"]
            answers["features"] = told.ask("/features?top=30")
            answers["info"] = told.ask("/info")
            answers["snapshot"] = told.ask("/snapshot", {})
            answers["after"] = told.ask("/predict", questions)
            case.names("openapi", openapi_names(told.ask("/openapi.json")["body"]))
            metrics = told.ask("/metrics")["body"]
            case.names("metrics", [line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")])
        finally:
            told.stop()
        again = Server("--data", "state")
        try:
            answers["after a restart"] = again.ask("/predict", questions)
        finally:
            again.stop()
        case.json("answers", answers)
        case.bayou("replay", "state", "--out", "replayed.bayou")
        for snapshot in Path("state").rglob("*.bayou"):
            Path(f"snapshot {snapshot.name}").write_bytes(snapshot.read_bytes())

    return run


def openapi_names(described: dict[str, Any]) -> Iterator[str]:
    """Yield endpoints, what they can be asked with, and fields of what comes back."""
    for path, operations in described["paths"].items():
        for method, one in operations.items():
            if not isinstance(one, dict):
                continue
            yield f"{method.upper()} {path}"
            for parameter in one.get("parameters", []):
                yield f"{method.upper()} {path}?{parameter['name']}="
            for kind in one.get("requestBody", {}).get("content", {}):
                yield f"{method.upper()} {path} body {kind}"
            for name in re.findall(r'"properties": (\{.*?\})', json.dumps(one.get("responses", {}).get("200", {}))):
                for field in re.findall(r'"(\w+)": \{', name):
                    yield f"{method.upper()} {path} field {field}"


# -------------------------------------------------------------------------------------------------- names of things


def command_names(case: Case) -> None:
    """Every command and each option of its help."""
    top = case.bayou("--help")
    commands = re.findall(r"^  ([a-z][\w-]*)  +\S", top[top.index("Commands:") :], re.MULTILINE)
    names = [f"bayou {option}" for option in options_of(top)]
    todo = [[command] for command in commands]
    while todo:
        command = todo.pop()
        text = case.bayou(*command, "--help")
        names += [f"bayou {' '.join(command)}", *(f"bayou {' '.join(command)} {each}" for each in options_of(text))]
        if "Commands:" in text:
            below = re.findall(r"^  ([a-z][\w-]*)  +\S", text[text.index("Commands:") :], re.MULTILINE)
            todo += [[*command, each] for each in below]
    case.names("options", names)


def options_of(text: str) -> list[str]:
    found = []
    for line in text[text.index("Options:") :].splitlines():
        if line.startswith("  -"):
            spelled = re.split(r" <| {2,}", line.strip())[0]
            found += re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", spelled)
    return found


def python_names(case: Case) -> None:
    """Public names, their members, the parameters they take, and what the reference pages document."""
    import bayou

    names, homes = [], {"bayou": bayou, "bayou.learners": bayou.learners}
    for prefix, home in homes.items():
        for name in home.__all__:
            value = getattr(home, name)
            names.append(f"{prefix}.{name}")
            if inspect.isclass(value) or inspect.isroutine(value):
                names += [f"{prefix}.{name}{each}" for each in _members(value)]
            elif inspect.ismodule(value):
                names += [f"{prefix}.{name}.{each}" for each in getattr(value, "__all__", ())]
    case.names("python", names)
    pages = Path(bayou.__file__).parents[2] / "docs" / "reference"
    texts = [page.read_text() for page in sorted(pages.glob("*.md"))]
    case.names("documented", re.findall(r"^::: (\S+)", "\n".join(texts), re.MULTILINE))


def _members(value: Any) -> Iterator[str]:
    with contextlib.suppress(TypeError, ValueError):
        for parameter in inspect.signature(value).parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                yield f"({parameter.name}=)"
    if inspect.isclass(value) and not issubclass(value, BaseException):
        ours = [base for base in value.__mro__ if base.__module__.startswith("bayou")]
        names = {name for base in ours for name in [*vars(base), *inspect.get_annotations(base)]}
        if value.__module__.startswith("bayou.learners") and hasattr(value, "learn"):
            names |= set(vars(value(n_features=4)))  # what the constructor sets
        yield from (f".{name}" for name in names if not name.startswith("_"))


def covered(case: Case) -> None:
    """Learners and estimators there are; `compare_commits.py` says which of them no case runs."""
    import bayou

    case.names("learners", bayou.learners.__all__)
    case.names("estimators", [name for name in bayou.__all__ if name.endswith(("Classifier", "Regressor"))])


def cases() -> dict[str, Callable[[Case], None]]:
    """Return every case by its name, the quickest kinds first."""
    both = ("marginal", "bank")
    found: dict[str, Callable[[Case], None]] = {
        "names/command": command_names, "names/python": python_names, "names/covered": covered,
    }  # fmt: skip
    for task, learners in {"binary": CLASSIFIERS, "multiclass": CLASSIFIERS, "regression": REGRESSORS}.items():
        for learner in learners:
            found[f"csv/{task}/{learner}"] = train_csv(learner, task)
            found[f"jsonl/{task}/{learner}"] = train_jsonl(learner, task)
    for learner in both:
        for title, (suffix, options) in FORMATS.items():
            found[f"format/{title}/{learner}"] = train_format(learner, suffix, options)
        for title, options in OPTIONS.items():
            found[f"option/{title}/{learner}"] = train_options(learner, options)
        found[f"frame/{learner}"] = frames(learner)
        found[f"many rows/{learner}"] = many_rows(learner)
        found[f"resume/{learner}"] = resume(learner)
        found[f"merge/{learner}"] = merge(learner)
        found[f"rounds/{learner}"] = rounds(learner)
    found |= {f"bank/{title}": banks(options) for title, options in BANKS.items()}
    found |= {"passes": passes, "vw flags": vw_flags, "svmlight groups": svmlight_groups, "select": select}
    found |= {f"compare/{task}": compare(task) for task in TASKS}
    found |= {"look": look, "features": features, "simulate": simulate, "a process": real_process}
    for name, variants in VARIANTS.items():
        for parameters in variants:
            words = ",".join(f"{key}={value}" for key, value in parameters.items())
            found[f"python/{name}({words})"] = learner_api(name, parameters)
    found |= {f"python/merge/{name}": merge_api(name) for name in ("Marginal", "Bank", "AdaGrad", "SpikeSlab")}
    found |= {f"python/rounds/{name}": rounds_api(name) for name in ("Marginal", "Moment", "AdaGrad", "Bank")}
    found |= {f"estimator/{name}": estimator(name) for name in sorted(ESTIMATORS | NUMBER_ESTIMATORS)}
    found |= {
        f"estimator/several/{name}": estimator(name, several=True) for name in ("BankClassifier", "MarginalClassifier")
    }
    found["river"] = river_face
    found["server/marginal"] = server("--learner", "marginal", "--bits", "12")
    found["server/bank"] = server("--learner", "bank", "--bits", "12")
    found["server/trained"] = server(trained=True)
    return found


def chosen(patterns: list[str]) -> dict[str, Callable[[Case], None]]:
    found = cases()
    return {name: run for name, run in found.items() if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns)}


def main() -> None:
    inputs, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    for name, run in chosen(sys.argv[3:]).items():
        folder = out / name
        folder.mkdir(parents=True)
        os.chdir(folder)
        start = time.perf_counter()
        try:
            run(Case(inputs, folder))
        except BaseException as error:  # a case that fails is a result, too
            if isinstance(error, KeyboardInterrupt):
                raise
            (folder / "failed.error").write_text("".join(traceback.format_exception(error)))
        print(json.dumps([name, time.perf_counter() - start]), flush=True)


if __name__ == "__main__":
    main()
