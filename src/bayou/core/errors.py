"""The errors bayou raises on purpose. Each message is a sentence: what was wrong, where, what to do."""


class BadInput(ValueError):
    """Data or a parameter that cannot be used; nothing was learned from it."""


class BadModel(ValueError):
    """A model file, or a pair of models, that cannot be used together."""


class NoPosterior(AttributeError):
    """A learner without a posterior was asked for uncertainty."""


class WrongTask(AttributeError):
    """A regressor was asked for what only a classifier has, or the other way round."""
