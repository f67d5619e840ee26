"""An interval holds 95% unless its reader asks for another, whichever face gives it."""

import importlib
import inspect

import pytest

FACES = {
    "the command": ("bayou.cli.predict", "predict"),
    "Python": ("bayou.runs.predict", "predict"),
    "a prediction": ("bayou.core.prediction", "Prediction.interval"),
    "a prediction of classes": ("bayou.core.class_prediction", "ClassPrediction.interval"),
    "the best class": ("bayou.core.class_prediction", "ClassPrediction.best_with_interval"),
    "tables": ("bayou.outputs.prediction_table", "prediction_table"),
    "classifiers": ("bayou.estimators", "BankClassifier.predict_interval"),
    "regressors": ("bayou.estimators", "BankRegressor.predict_interval"),
    "river": ("bayou.river", "Regressor.predict_interval_one"),
    "Spark": ("bayou.spark.scoring", "transform"),
    "the server": ("bayou.serve.model_requests", "ModelRequest"),
    "the server's client": ("bayou.serve.client", "Client.predict"),
}


@pytest.mark.parametrize("face", FACES)
def test_the_default_level_is_the_same_in_every_face(face):
    module, name = FACES[face]
    if face in ("river", "Spark"):
        pytest.importorskip({"river": "river", "Spark": "pyspark"}[face])
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    asked = found.level if face == "the server" else inspect.signature(found).parameters["level"].default
    assert asked == 0.95
