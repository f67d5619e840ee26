"""Loading of model files."""

from __future__ import annotations

import os

from bayou.core import checks, model_file, registry
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.core.state import restore


def load(path: str | os.PathLike[str]) -> Learner:
    """Return the learner that `save` wrote to `path`. It continues bit for bit as if it had never been saved.

    >>> import tempfile
    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=10)
    >>> p = learner.learn(Batch.from_rows([{3: 1.0}], labels=[1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learner.save(f"{folder}/m.bayou")
    ...     again = load(f"{folder}/m.bayou")
    >>> bool((again.mean == learner.mean).all()), again.examples
    (True, 1)
    """
    path = checks.check_path("path", path)
    with model_file.open_lazily(path) as (header, arrays):
        try:
            return restore(registry.find(header["learner"]).load(), header, arrays)
        except BadModel as error:
            raise BadModel(f"{path}: {error}") from None
        except MemoryError as error:
            raise BadModel(f"{path}: there is not enough memory for this model ({error}).") from None
        except (BadInput, LookupError, TypeError, AttributeError) as error:
            raise BadModel(
                f"{path}: this bayou cannot make a learner of the file ({str(error).rstrip('.')}). "
                "If a newer bayou wrote it, upgrade."
            ) from None
