"""Logistic regression over a handful of features, and figures of how well odds tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_STEPS = 30
_SUREST = 1e-4


def fit(features: Vector, label: Vector, offset: Vector, shrink: float = 1.0) -> Vector:
    """By Newton's method. features: [N, K]; label, offset (log odds known before): [N] -> [K + 1],
    all float64.

    The last coefficient is that of a constant, which is not shrunk.
    """
    rows = np.column_stack([features, np.ones(len(features))])
    ridge = np.eye(rows.shape[1]) * shrink
    ridge[-1, -1] = 0.0
    coefficients = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        guessed = sigmoid(rows @ coefficients + offset)
        curvature = (rows * (guessed * (1 - guessed))[:, None]).T @ rows + ridge
        slope = rows.T @ (guessed - label) + ridge @ coefficients
        coefficients -= np.linalg.solve(curvature, slope)
    return coefficients


def odds_by(coefficients: Vector, features: Vector, offset: Vector) -> Vector:
    """[N] log odds, of coefficients [K + 1], features [N, K] and offset [N], all float64."""
    return np.asarray(features @ coefficients[:-1] + coefficients[-1] + offset)


def sigmoid(odds: Vector) -> Vector:
    """Probabilities of log odds, both [N] float64."""
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))


def area_under_curve(label: Vector, score: Vector) -> float:
    """How often a finished one scores higher than an unfinished one; ties count half.

    label (1: finished), score: [N] float64.
    """
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    n_finished = label.sum()
    above = rank[label > 0].sum() - n_finished * (n_finished + 1) / 2
    return float(above / (n_finished * (len(label) - n_finished)))


def log_loss(label: Vector, probability: Vector, weight: Vector | None = None) -> float:
    """In nats, per example. label, probability, weight: [N] float64."""
    sure = np.clip(np.where(label > 0, probability, 1 - probability), _SUREST, 1)
    return float(np.average(-np.log(sure), weights=weight))
