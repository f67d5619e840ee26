"""What `benchmarks/serve.py` is compared with: river's logistic regression behind FastAPI, and VW's daemon.

python serve_rivals.py river PORT
python serve_rivals.py vw PORT
"""

from __future__ import annotations

import sys


def river(port: int) -> None:
    """Rows as dictionaries: numbers are values, texts are made indicators by hand. Nothing is logged."""
    import uvicorn
    from fastapi import FastAPI, Request
    from river import linear_model

    app, model = FastAPI(), linear_model.LogisticRegression()

    def features(row: dict) -> dict:
        return {(f"{k}={v}" if isinstance(v, str) else k): (1.0 if isinstance(v, str) else v) for k, v in row.items()}

    @app.post("/predict")
    async def predict(request: Request) -> dict:
        return {"probability": model.predict_proba_one(features(await request.json()))[True]}

    @app.post("/learn")
    async def learn(request: Request) -> dict:
        row = await request.json()
        label = bool(row.pop("label"))
        x = features(row)
        p = model.predict_proba_one(x)[True]
        model.learn_one(x, label)
        return {"probability": p}

    uvicorn.run(app, port=port, log_level="error", access_log=False)


def vw(port: int) -> None:
    """Lines of text, one prediction back for each; what it learned is lost with the process."""
    import vowpalwabbit

    options = (
        f"--daemon --foreground --port {port} --num_children 1 --loss_function logistic --link logistic -b 18 --quiet"
    )
    vowpalwabbit.Workspace(options).run_parser()


if __name__ == "__main__":
    {"river": river, "vw": vw}[sys.argv[1]](int(sys.argv[2]))
