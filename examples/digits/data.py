"""The digits data set that comes with scikit-learn, split once and for all into training and test images.

Real scans of handwritten digits, 1797 grey images of 8x8 pixels. Training, demo and tests all call
``load()``, so that no test image can ever reach the training or the calibration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

PIXEL_MAX = 16.0  # the data set counts ink dots in 4x4 blocks, hence 0..16
TEST_SHARE = 0.3
SPLIT_SEED = 0


class Digits(NamedTuple):
    """Images float32 [N,1,8,8] in 0..1 and labels int64 [N] in 0..9."""

    x_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float32]
    y_test: NDArray[np.int64]


def load() -> Digits:
    """Return the fixed split: 1257 images to train on, 540 to test on, same class shares in both."""
    raw, labels = load_digits(return_X_y=True)
    images = (raw / PIXEL_MAX).astype(np.float32).reshape(-1, 1, 8, 8)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels.astype(np.int64), test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=labels
    )
    return Digits(x_train, y_train, x_test, y_test)
