"""The errors bayou raises on purpose. Each message is a sentence: what was wrong, where, what to do."""


class BadInput(ValueError):
    """Data or a parameter that cannot be used; nothing was learned from it.

    >>> import bayou
    >>> try:
    ...     bayou.Batch.from_rows([{0: float("inf")}])
    ... except bayou.BadInput as error:
    ...     print(error)
    row 0, feature 0: the value is inf; every value must be a finite number.
    """


class NothingToLearn(BadInput):
    """Data of which no row could be learned from.

    Attributes:
        first: what was wrong with the first row, as a sentence; empty if that is not known.
    """

    def __init__(self, message: str, first: str = "") -> None:
        super().__init__(message)
        self.first = first


class BadModel(ValueError):
    """A model file, or a pair of models, that cannot be used together.

    >>> import bayou
    >>> try:
    ...     bayou.load("nowhere.bayou")
    ... except bayou.BadModel as error:
    ...     print(error)
    nowhere.bayou: there is no such model file; `bayou train --model` or `save` writes one.
    """


class NoPosterior(AttributeError):
    """A learner without a posterior was asked for uncertainty.

    >>> from bayou.learners import AdaGrad
    >>> hasattr(AdaGrad(n_features=3), "variance")
    False
    """


class WrongTask(AttributeError):
    """A regressor was asked for what only a classifier has, or the other way round.

    >>> from bayou import Batch
    >>> from bayou.learners import Gaussian
    >>> hasattr(Gaussian(n_features=3).predict(Batch.from_rows([{0: 1.0}])), "probability")
    False
    """
