"""The errors that bayou raises deliberately. Each message says what was wrong, where, and what to do."""


class BadInput(ValueError):
    """Invalid data or an invalid parameter; nothing was learned from it.

    >>> import bayou
    >>> try:
    ...     bayou.Batch.from_rows([{0: float("inf")}])
    ... except bayou.BadInput as error:
    ...     print(error)
    row 0, feature 0: the value is inf; every value must be a finite number.
    """


class NothingToLearn(BadInput):
    """Data without a single usable row.

    Attributes:
        first: the error of the first row, as a sentence; empty if unknown.
    """

    def __init__(self, message: str, first: str = "") -> None:
        super().__init__(message)
        self.first = first


class BadModel(ValueError):
    """A model file that cannot be used, or models that cannot be used together.

    >>> import bayou
    >>> try:
    ...     bayou.load("nowhere.bayou")
    ... except bayou.BadModel as error:
    ...     print(error)
    nowhere.bayou: there is no such model file; `bayou train --model` or `save` writes one.
    """


class NoPosterior(AttributeError):
    """Raised when uncertainty is requested from a learner without a posterior.

    >>> from bayou.learners import AdaGrad
    >>> hasattr(AdaGrad(n_features=3), "variance")
    False
    """


class WrongTask(AttributeError):
    """Raised when an attribute of classifiers is requested from a regressor, or vice versa.

    >>> from bayou import Batch
    >>> from bayou.learners import Gaussian
    >>> hasattr(Gaussian(n_features=3).predict(Batch.from_rows([{0: 1.0}])), "probability")
    False
    """
