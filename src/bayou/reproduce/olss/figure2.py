"""Figure 2 of olss, on flights: AUC against the number of features, on three later periods."""

from bayou.reproduce.olss import data
from bayou.reproduce.olss.periods import later_periods

run = later_periods(__name__, "Figure 2: flights", data.flights, minutes=(1.0, 12.0))
