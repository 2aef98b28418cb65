"""Makes temperatures.npy, the data of `make demo`: a week of hourly temperatures, some of which are missing.

    python make.py
"""

import pathlib

import numpy as np

day, hour = np.meshgrid(np.arange(7), np.arange(24), indexing="ij")
celsius = 14 + 2.5 * np.sin(day * 0.9) - 6 * np.cos((hour - 3) / 24 * 2 * np.pi)
celsius[2, 5:9] = np.nan
celsius[5, 17] = np.nan
np.save(pathlib.Path(__file__).with_name("temperatures.npy"), celsius.astype("<f4").round(1))
