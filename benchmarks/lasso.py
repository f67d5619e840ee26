"""The lasso against batch solvers: agreement, speed to an equal objective, bad starts, memory.

    python benchmarks/lasso.py agreement      objective and coefficients against liblinear and another solver
    python benchmarks/lasso.py speed          seconds to an objective within 1e-6, against liblinear, saga, celer, skglm
    python benchmarks/lasso.py online         seconds of one online pass over Reuters
    python benchmarks/lasso.py starts         a thousand starts drawn from N(0, 10^2)
    python benchmarks/lasso.py shards         two processes with half of the rows each, against one with all
    python benchmarks/lasso.py memory         simulated files of 0.2 GB and 2 GB, limited to 500 MB

Data: the folder BAYOU_DATA, or ../shared/data. Speed is in CPU seconds, the best of three; all solvers use one thread
and start from a CSR matrix in memory. celer and skglm are included if they are installed.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit, log_ndtr
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

from bayou import Batch
from bayou.learners import Lasso
from bayou.reproduce import ExperimentOptions
from bayou.reproduce.quadratic_l1 import data

DATA = Path(os.environ.get("BAYOU_DATA", "../shared/data"))
warnings.filterwarnings("ignore")


# --- data -----------------------------------------------------------------------------------------------------------


def svmlight(name):
    X, y = load_svmlight_file(str(DATA / f"{name}.svm.gz"), zero_based=False)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, (y > 0).astype(float)


def standardised(name):
    from scipy.sparse import csr_matrix

    X, y = svmlight(name)
    return csr_matrix(scale(X.toarray())), y


def reuters(topic, tfidf=False):
    os.environ.setdefault("BAYOU_DATA", str(DATA))
    X, y, _ = data.reuters(ExperimentOptions(Path()), topic)
    return (TfidfTransformer(sublinear_tf=True).fit_transform(X).tocsr() if tfidf else X.tocsr()), y


SETS = {
    "a9a": lambda: svmlight("a9a.train"),
    "w8a": lambda: svmlight("w8a.train"),
    "phishing": lambda: svmlight("phishing"),
    "colon": lambda: standardised("colon"),
    "leukemia": lambda: standardised("leukemia"),
    "earn, counts": lambda: reuters("earn"),
    "earn, tf-idf": lambda: reuters("earn", True),
    "acq, counts": lambda: reuters("acq"),
    "acq, tf-idf": lambda: reuters("acq", True),
}
PENALTIES = (10.0, 1.0)


# --- solvers --------------------------------------------------------------------------------------------------------


def ours(X, y, penalty, tolerance=1e-8, algorithm="multipass", passes=200, **more):
    batch = Batch.from_csr(X, y)
    learner = Lasso(
        X.shape[1], algorithm=algorithm, penalty=penalty, penalize_intercept=True, tolerance=tolerance, **more
    )
    for _ in range(passes):
        learner.learn(batch)
        if learner.end_pass():
            break
    return learner


def weights_of(learner):
    return np.append(learner.mean, learner.intercept[0])


def liblinear(X, y, penalty, tolerance, iterations=2000):
    model = LogisticRegression(
        l1_ratio=1.0, C=1.0 / penalty, solver="liblinear", tol=tolerance, max_iter=iterations, random_state=0
    )
    model.fit(X, y)
    return np.append(model.coef_[0], model.intercept_[0])


def saga(X, y, penalty, tolerance):
    """The intercept is a column, so that it is penalised as liblinear's is."""
    from scipy.sparse import csr_matrix, hstack

    wide = csr_matrix(hstack([X, np.ones((X.shape[0], 1))]))
    wide.indices, wide.indptr = wide.indices.astype(np.int32), wide.indptr.astype(np.int32)
    model = LogisticRegression(
        l1_ratio=1.0, C=1.0 / penalty, solver="saga", tol=tolerance, max_iter=500, fit_intercept=False, random_state=0
    )
    return model.fit(wide, y).coef_[0]


def with_celer(X, y, penalty, tolerance):
    from celer import LogisticRegression as Celer
    from scipy.sparse import csc_matrix, hstack

    wide = csc_matrix(hstack([X, np.ones((X.shape[0], 1))]))
    return Celer(C=1.0 / penalty, tol=tolerance, max_iter=200).fit(wide, np.where(y > 0, 1, -1)).coef_[0]


def with_skglm(X, y, penalty, tolerance):
    from scipy.sparse import csc_matrix, hstack
    from skglm import SparseLogisticRegression

    wide = csc_matrix(hstack([X, np.ones((X.shape[0], 1))]))
    model = SparseLogisticRegression(alpha=penalty / len(y), tol=tolerance, fit_intercept=False)
    return model.fit(wide, np.where(y > 0, 1, -1)).coef_[0]


def newton(X, y, penalty, link, rounds=50):
    """Proximal Newton from 0 for either link: reweighted least squares, each solved by scikit-learn's `Lasso`."""
    from scipy.sparse import csc_matrix, hstack
    from sklearn.linear_model import Lasso as LeastSquares

    wide = csc_matrix(hstack([X, np.ones((X.shape[0], 1))]))
    signs = np.where(y > 0, 1.0, -1.0)
    weights = np.zeros(wide.shape[1])
    inner = LeastSquares(alpha=penalty / len(y), fit_intercept=False, warm_start=True, tol=1e-14, max_iter=300)
    for _ in range(rounds):
        score = wide @ weights
        slope, bend = slope_and_bend(signs * score, link)
        bend = np.maximum(bend, 1e-12)
        root = np.sqrt(bend)
        inner.coef_ = weights.copy()  # where it starts; written over
        step = inner.fit(wide.multiply(root[:, None]).tocsc(), root * (score + signs * slope / bend)).coef_ - weights
        share, before = 1.0, objective(X, y, penalty, weights, link)
        while objective(X, y, penalty, weights + share * step, link) > before and share > 1e-4:
            share /= 2
        weights = weights + share * step
        if np.abs(step).max() < 1e-8 or share <= 1e-4:
            break
    return weights


def objective(X, y, penalty, weights, link="logistic"):
    score = np.where(y > 0, 1.0, -1.0) * (X @ weights[:-1] + weights[-1])
    loss = np.logaddexp(0.0, -score) if link == "logistic" else -log_ndtr(score)
    return loss.sum() + penalty * np.abs(weights).sum()


def slope_and_bend(margin, link):
    """The first derivative of the log-likelihood, and minus the second."""
    if link == "logistic":
        return expit(-margin), expit(margin) * expit(-margin)
    slope = np.exp(-0.5 * margin**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(margin))
    return slope, slope * (slope + margin)


def gradient(X, y, weights, link):
    signs = np.where(y > 0, 1.0, -1.0)
    slope = signs * slope_and_bend(signs * (X @ weights[:-1] + weights[-1]), link)[0]
    return np.append(X.T @ slope, slope.sum())


def violation(X, y, penalty, weights, link):
    """The certificate by SciPy alone."""
    slope = gradient(X, y, weights, link)
    at_zero = np.maximum(np.abs(slope) - penalty, 0.0)
    return np.where(weights == 0.0, at_zero, np.abs(slope - penalty * np.sign(weights))).max()


def unique(X, y, penalty, weights, link):
    """Whether the solution is the only one: the features whose gradient is at the penalty are independent."""
    held = np.flatnonzero(np.abs(gradient(X, y, weights, link)) > penalty * (1 - 1e-6))
    block = X[:, held[held < X.shape[1]]].toarray()
    if len(held) and held[-1] == X.shape[1]:
        block = np.column_stack([block, np.ones(len(y))])
    return len(held) <= len(y) and np.linalg.matrix_rank(block) == len(held)


# --- what is measured -----------------------------------------------------------------------------------------------


def agreement(names):
    """Against liblinear (as tight as it gets) and proximal Newton; scores are unique where coefficients are not."""
    columns = ["set", "penalty", "weights", "passes", "seconds", "KKT / penalty", "the same by SciPy"]
    columns += ["objective / liblinear's - 1", "objective / Newton's - 1"]
    columns += ["largest difference from liblinear's coefficients", "from Newton's", "of the scores", "unique"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for name in names or SETS:
        X, y = SETS[name]()
        ours(X, y, 3.0, algorithm="reduced")  # compiled
        for link in ("logistic", "probit"):
            for penalty in PENALTIES:
                start = time.process_time()
                learner = ours(X, y, penalty, algorithm="reduced", link=link)
                seconds = time.process_time() - start
                mine = weights_of(learner)
                cells = [f"{name}, {link}", f"{penalty:g}", f"{learner.active_size}", f"{learner.n_passes}"]
                cells += [f"{seconds:.2f}", f"{learner.kkt_violation / penalty:.0e}"]
                cells += [f"{violation(X, y, penalty, mine, link) / penalty:.0e}"]
                found = [newton(X, y, penalty, link)]
                if link == "logistic":
                    found.insert(0, liblinear(X, y, penalty, 1e-9, 300))
                best = objective(X, y, penalty, mine, link)
                ratios = [f"{best / objective(X, y, penalty, theirs, link) - 1:.0e}" for theirs in found]
                apart = [mine - theirs for theirs in found]
                differences = [f"{np.abs(difference).max():.0e}" for difference in apart]
                scores = min(np.abs(X @ difference[:-1] + difference[-1]).max() for difference in apart)
                blank = [""] * (2 - len(found))
                cells += [*blank, *ratios, *blank, *differences, f"{scores:.0e}"]
                cells += ["yes" if unique(X, y, penalty, mine, link) else "no"]
                print("| " + " | ".join(cells) + " |", flush=True)


def best_of(solve, X, y, penalty, tolerances, target):
    """CPU seconds at the loosest tolerance that reaches the target, the best of three; None if it takes over 10."""
    for tolerance in tolerances:
        seconds = []
        for _ in range(3):
            start = time.process_time()
            found = solve(X, y, penalty, tolerance)
            seconds.append(time.process_time() - start)
            if objective(X, y, penalty, found) > target * (1 + 1e-6):
                break
        else:
            return min(seconds)
        if seconds[-1] > 10:
            break
    return None


def speed(names):
    solvers = {
        "ours": lambda *a: weights_of(ours(*a, algorithm="reduced")),
        "liblinear": liblinear,
        "saga": saga,
    }
    for module, solve in (("celer", with_celer), ("skglm", with_skglm)):
        try:
            __import__(module)
            solvers[module] = solve
        except ImportError:
            print(f"{module} is not installed", file=sys.stderr)
    columns = [*solvers, "ours / fastest peer"]
    print("| set | penalty | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for name in names or ["earn, counts", "earn, tf-idf", "acq, counts", "acq, tf-idf", "a9a", "w8a"]:
        X, y = SETS[name]()
        for solve in solvers.values():
            solve(X[:2000], y[:2000], 10.0, 0.1)  # compiled
        for penalty in PENALTIES:
            target = objective(X, y, penalty, weights_of(ours(X, y, penalty, algorithm="reduced")))
            with threadpool_limits(1):
                found = [best_of(solve, X, y, penalty, 10.0 ** -np.arange(1, 7), target) for solve in solvers.values()]
            ratio = found[0] / min(seconds for seconds in found[1:] if seconds)
            cells = [f"{seconds:.3f}" if seconds else "not reached" for seconds in found]
            print(f"| {name} | {penalty:g} | " + " | ".join(cells) + f" | {ratio:.1f} |", flush=True)


def online(_):
    X, y = SETS["earn, counts"]()
    batch = Batch.from_csr(X, y)
    print(f"{len(y):,} documents, {X.shape[1]:,} stems")
    for penalty in (100.0, 10.0):
        seconds = []
        for _ in range(3):
            learner = Lasso(X.shape[1], penalty=penalty, penalize_intercept=True)
            start = time.perf_counter(), time.process_time()
            learner.learn(batch)
            learner.end_pass()
            seconds.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        wall, cpu = np.min(seconds, axis=0)
        print(f"penalty {penalty:g}: {wall:.2f} s, of CPU {cpu:.2f} s; {learner.active_size} weights are not 0")


def starts(names, n=1000):
    """Starts drawn from N(0, 10^2): none may diverge."""
    for name in names or ("phishing", "a9a"):
        X, y = SETS[name]()
        batch = Batch.from_csr(X, y)
        best = ours(X, y, 10.0).objective
        generator = np.random.default_rng(0)
        passes, worst, failed = [], 0.0, 0
        for _ in range(n):
            learner = Lasso(X.shape[1], algorithm="multipass", penalty=10.0, penalize_intercept=True, tolerance=1e-6)
            learner._problem.weights[:] = 10.0 * generator.normal(size=X.shape[1] + 1)
            for _ in range(300):
                learner.learn(batch)
                if done := learner.end_pass():
                    break
            failed += not done
            passes.append(learner.n_passes)
            worst = max(worst, learner.objective / best - 1)
        print(
            f"{name}, {len(y):,} rows: {n} starts, {failed} not converged, {np.median(passes):.0f} passes, "
            f"at most {max(passes)}; objective above the best by at most {worst:.1e}",
            flush=True,
        )


def memory(_, limit=500_000_000, size=200_000_000):
    """Peak memory of `bayou train` on a file, and on one with the same rows ten times, with the same limit.

    Ten times the penalty gives the same weights: the objectives must differ by a factor of ten.
    """
    with tempfile.TemporaryDirectory(prefix="bayou-lasso-") as folder:
        path = Path(folder) / "once.svm"
        rows = simulate(path, size)
        for times in (1, 10):
            if times > 1:
                once, path = path, Path(folder) / "ten.svm"
                with open(path, "wb") as file:
                    for _ in range(times):
                        file.write(once.read_bytes())
                once.unlink()
            settings = f"algorithm=reduced penalty={100 * times} max_active=300 tolerance=1e-6"
            command = [sys.executable, "-m", "bayou", "train", str(path), "--learner", "lasso", "--bits", "18"]
            command += ["--passes", "30", "--json", "--threads", "1"]
            command += [part for setting in settings.split() for part in ("--set", setting)]
            start = time.perf_counter()
            with open(Path(folder) / "said", "w+") as said, open(Path(folder) / "progress", "w+") as progress:
                child = subprocess.Popen(
                    command,
                    stdout=said,
                    stderr=progress,
                    env={**os.environ, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
                )
                _, status, usage = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
                said.seek(0)
                progress.seek(0)
                lines = progress.read()
                if child.returncode:
                    raise SystemExit(lines)
                result = json.load(said)
            print(
                f"{path.stat().st_size / 1e9:.2f} GB, {times * rows:,} rows: peak {usage.ru_maxrss / 1024:.0f} MiB, "
                f"{result['passes']} passes, converged: {result['converged']}, {time.perf_counter() - start:.0f} s "
                f"(CPU {usage.ru_utime + usage.ru_stime:.0f} s)",
                *[line for line in lines.splitlines() if "KKT" in line],
                sep="\n    ",
                flush=True,
            )


def shards(_):
    """Two halves of a set as files, a process each, against one stream: the largest difference of all weights."""
    from bayou import sources
    from bayou.rounds import exact_shards as shards

    print("| set | passes | largest difference, relative to the largest weight | one process, s | two, s |")
    print("|---|---|---|---|---|")
    for name in ("a9a", "w8a", "earn, counts"):
        X, y = SETS[name]()
        with tempfile.TemporaryDirectory(prefix="bayou-lasso-") as folder:
            files = [str(Path(folder) / f"{part}.svm") for part in range(2)]
            middle = len(y) // 2
            for file, rows in zip(files, (slice(None, middle), slice(middle, None)), strict=True):
                dump_svmlight_file(X[rows], y[rows], file, zero_based=False)
            bits = int(X.shape[1]).bit_length()
            one, two = (Lasso(1 << bits, algorithm="reduced", penalty=10.0, penalize_intercept=True) for _ in range(2))
            started = time.perf_counter()
            for _ in range(100):
                for batch in sources.open(files, recipe={"bits": bits}):
                    one.learn(batch)
                if one.end_pass():
                    break
            between = time.perf_counter()
            shards.train(two, [files[:1], files[1:]], passes=100, recipe={"bits": bits})
            ended = time.perf_counter()
        apart = np.abs(weights_of(one) - weights_of(two)).max() / np.abs(weights_of(one)).max()
        passes = f"{one.n_passes} and {two.n_passes}"
        print(f"| {name} | {passes} | {apart:.0e} | {between - started:.1f} | {ended - between:.1f} |", flush=True)


def simulate(path, size):
    """Rows of 30 of 100,000 words, Zipf, each with a number, until the file has this size; how many there are."""
    generator = np.random.default_rng(0)
    weights = np.where(np.arange(100_000) % 400 == 7, generator.normal(size=100_000), 0.0)
    weights[:50] = generator.normal(size=50)
    rows = 0
    with open(path, "w") as file:
        while file.tell() < size:
            words = np.sort(np.minimum(generator.zipf(1.3, (5000, 30)), 100_000) - 1, axis=1)
            fresh = np.diff(words, axis=1, prepend=-1) > 0
            values = np.round(generator.uniform(0.5, 2.0, words.shape), 6)
            positive = (weights[words] * values * fresh).sum(axis=1) + generator.logistic(size=5000) > 0
            for k in range(5000):
                some = zip(words[k, fresh[k]].tolist(), values[k, fresh[k]].tolist(), strict=True)
                file.write(("1 " if positive[k] else "-1 ") + " ".join([f"{j + 1}:{x}" for j, x in some]) + "\n")
            rows += 5000
    return rows


if __name__ == "__main__":
    parts = (agreement, speed, online, starts, shards, memory)
    what = {part.__name__: part for part in parts}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        raise SystemExit(__doc__)
    what[sys.argv[1]](sys.argv[2:])
