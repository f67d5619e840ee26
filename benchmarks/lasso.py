"""The lasso against batch solvers: agreement, speed to an equal objective, bad starts, memory.

    python benchmarks/lasso.py agreement      objective and coefficients beside liblinear's and a probit solver's
    python benchmarks/lasso.py speed          seconds to an objective within 1e-6, beside liblinear, saga, celer, skglm
    python benchmarks/lasso.py online         seconds of one online pass over Reuters
    python benchmarks/lasso.py starts         a thousand starts drawn N(0, 10^2)
    python benchmarks/lasso.py memory         a simulated file of 0.2 GB and one of 2 GB, under a limit of 500 MB

Data: the folder BAYOU_DATA, or ../shared/data. Seconds are the best of three; all solvers have one thread and the data
in memory. celer and skglm take part if they are installed.
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
from scipy.special import log_ndtr
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from bayou import Batch
from bayou.learners import Lasso
from bayou.reproduce import Options, l1

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
    X, y, _ = l1.reuters(Options(Path()), topic)
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


def objective(X, y, penalty, weights, link="logistic"):
    score = np.where(y > 0, 1.0, -1.0) * (X @ weights[:-1] + weights[-1])
    loss = np.logaddexp(0.0, -score) if link == "logistic" else -log_ndtr(score)
    return loss.sum() + penalty * np.abs(weights).sum()


def gradient(X, y, weights, link="logistic"):
    signs = np.where(y > 0, 1.0, -1.0)
    score = signs * (X @ weights[:-1] + weights[-1])
    if link == "logistic":
        slope = signs / (1.0 + np.exp(score))
    else:
        slope = signs * np.exp(-0.5 * score**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(score))
    return np.append(X.T @ slope, slope.sum())


def proximal(X, y, penalty, link, start, steps=3000):
    """An independent probit solver: accelerated proximal gradient with restarts, refined from any start."""
    from scipy.sparse.linalg import svds

    bend = (0.25 if link == "logistic" else 1.0) * (svds(X, k=1, return_singular_vectors=False)[0] ** 2 + len(y))
    b = z = start.copy()
    t = 1.0
    for _ in range(steps):
        moved = z + gradient(X, y, z, link) / bend
        new = np.sign(moved) * np.maximum(np.abs(moved) - penalty / bend, 0.0)
        later = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        if (z - new) @ (new - b) > 0:  # restart
            later, t = 1.0, 1.0
        z = new + (t - 1) / later * (new - b)
        b, t = new, later
    return b


def unique(X, y, penalty, weights):
    """Whether the solution is the only one: the features whose gradient is at the penalty are independent."""
    held = np.flatnonzero(np.abs(gradient(X, y, weights)) > penalty * (1 - 1e-6))
    block = X[:, held[held < X.shape[1]]].toarray()
    if len(held) and held[-1] == X.shape[1]:
        block = np.column_stack([block, np.ones(len(y))])
    return len(held) <= len(y) and np.linalg.matrix_rank(block) == len(held)


# --- what is measured -----------------------------------------------------------------------------------------------


def agreement(names):
    columns = "set penalty weights passes KKT/penalty objective/liblinear's-1 largest-difference unique"
    print("| " + " | ".join(columns.split()) + " |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or SETS:
        X, y = SETS[name]()
        for penalty in PENALTIES:
            learner = ours(X, y, penalty, algorithm="reduced")
            mine = weights_of(learner)
            theirs = liblinear(X, y, penalty, 1e-7, 500)
            best = objective(X, y, penalty, theirs)
            print(
                f"| {name} | {penalty:g} | {learner.active_size} | {learner.n_passes} | "
                f"{learner.kkt_violation / penalty:.1e} | {objective(X, y, penalty, mine) / best - 1:.1e} | "
                f"{np.abs(mine - theirs).max():.1e} | {'yes' if unique(X, y, penalty, mine) else 'no'} |",
                flush=True,
            )
            probit = ours(X, y, penalty, algorithm="reduced", link="probit")
            mine = weights_of(probit)
            theirs = proximal(X, y, penalty, "probit", mine + 1e-3 * (mine != 0), 300)
            best = objective(X, y, penalty, theirs, "probit")
            print(
                f"| {name}, probit | {penalty:g} | {probit.active_size} | {probit.n_passes} | "
                f"{probit.kkt_violation / penalty:.1e} | {objective(X, y, penalty, mine, 'probit') / best - 1:.1e} | "
                f"{np.abs(mine - theirs).max():.1e} | |",
                flush=True,
            )


def best_of(solve, X, y, penalty, tolerances, target):
    """(seconds, tolerance) of the loosest tolerance that reaches the target, the best of three runs."""
    for tolerance in tolerances:
        start = time.perf_counter()
        found = solve(X, y, penalty, tolerance)
        first = time.perf_counter() - start
        if objective(X, y, penalty, found) <= target * (1 + 1e-6):
            seconds = [first]
            for _ in range(2 if first < 20 else 0):
                start = time.perf_counter()
                solve(X, y, penalty, tolerance)
                seconds.append(time.perf_counter() - start)
            return min(seconds), tolerance
        if first > 60:
            break
    return None


def speed(names):
    solvers = {
        "multipass": lambda *a: weights_of(ours(*a)),
        "reduced": lambda *a: weights_of(ours(*a, algorithm="reduced")),
        "liblinear": liblinear,
        "saga": saga,
    }
    for module, solve in (("celer", with_celer), ("skglm", with_skglm)):
        try:
            __import__(module)
            solvers[module] = solve
        except ImportError:
            print(f"{module} is not installed", file=sys.stderr)
    print("| set | penalty | " + " | ".join(solvers) + " | best of ours / fastest peer |")
    print("|---" * (len(solvers) + 3) + "|")
    for name in names or ["earn, counts", "earn, tf-idf", "acq, tf-idf", "a9a", "w8a"]:
        X, y = SETS[name]()
        for penalty in PENALTIES:
            target = objective(X, y, penalty, weights_of(ours(X, y, penalty)))
            found = {}
            for solver, solve in solvers.items():
                found[solver] = best_of(solve, X, y, penalty, (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), target)
            peers = [one[0] for solver, one in found.items() if one and solver not in ("multipass", "reduced")]
            mine = min(found[solver][0] for solver in ("multipass", "reduced"))
            cells = " | ".join(f"{one[0]:.3f}" if one else "not reached" for one in found.values())
            print(f"| {name} | {penalty:g} | {cells} | {mine / min(peers):.1f} |", flush=True)


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


def starts(_, n=1000):
    for name in ("a9a", "phishing"):
        X, y = SETS[name]()
        batch = Batch.from_csr(X, y)
        best = ours(X, y, 10.0).objective
        generator = np.random.default_rng(0)
        passes, worst, failed = [], 0.0, 0
        for _ in range(n):
            learner = Lasso(X.shape[1], algorithm="multipass", penalty=10.0, penalize_intercept=True, tolerance=1e-6)
            learner._weights[:] = 10.0 * generator.normal(size=X.shape[1] + 1)
            for _ in range(300):
                learner.learn(batch)
                if done := learner.end_pass():
                    break
            failed += not done
            passes.append(learner.n_passes)
            worst = max(worst, learner.objective / best - 1)
        print(
            f"{name}: {n} starts, {failed} not converged, passes {np.median(passes):.0f} in the middle, at most "
            f"{max(passes)}; objective above the best by at most {worst:.1e}",
            flush=True,
        )


def memory(_, limit=500_000_000, size=200_000_000):
    """Peak memory of `bayou train` over a file, and over one that has the same rows ten times, with the same limit.

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
            settings = [f"algorithm=reduced penalty={100 * times} max_active=300 tolerance=1e-6"]
            command = [sys.executable, "-m", "bayou", "train", str(path), "--learner", "lasso", "--bits", "18"]
            command += ["--passes", "30", "--json", "--threads", "1"]
            command += [part for setting in settings[0].split() for part in ("--set", setting)]
            start = time.perf_counter()
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env={**os.environ, "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            # The peak is that of the largest child so far: the second run's, if it took more than the first.
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            said = json.loads(done.stdout)
            print(
                f"{path.stat().st_size / 1e9:.2f} GB, {times * rows:,} rows: peak at most {peak / 1e6:.0f} MB, "
                f"{said['passes']} passes, converged: {said['converged']}, {time.perf_counter() - start:.0f} s",
                [line for line in done.stderr.splitlines() if "KKT" in line][-1],
                sep="\n    ",
                flush=True,
            )


def simulate(path, size):
    """Rows of 30 of 100,000 words, Zipf, of which 50 matter, until the file is so large; how many there are."""
    generator = np.random.default_rng(0)
    weights = np.where(np.arange(100_000) % 400 == 7, generator.normal(size=100_000), 0.0)
    weights[:50] = generator.normal(size=50)
    rows = 0
    with open(path, "w") as file:
        while file.tell() < size:
            words = np.minimum(generator.zipf(1.3, (5000, 30)), 100_000) - 1
            score = weights[words].sum(axis=1) + generator.logistic(size=5000)
            lines = []
            for some, positive in zip(words, score > 0, strict=True):
                lines.append(("1 " if positive else "-1 ") + " ".join(f"{j + 1}:1" for j in np.unique(some)) + "\n")
            file.write("".join(lines))
            rows += 5000
    return rows


if __name__ == "__main__":
    what = {"agreement": agreement, "speed": speed, "online": online, "starts": starts, "memory": memory}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        raise SystemExit(__doc__)
    what[sys.argv[1]](sys.argv[2:])
