"""Rounds of a bench that brings a host to swap: every mode once in each, and the medians of what came of it."""
import host
import uml

SWAP_MIB = 2048


def in_swap(bench, kind, modes, figures, one):
    """figures: (key, unit) each; one(mode, label) returns a value for each of them. Returns the modes that were wanted."""
    modes = [mode for mode in modes if bench.wants(f"{kind}.{mode}")]
    if not modes:
        return modes
    swap = host.Swap(uml.BUILD, SWAP_MIB)
    try:
        for number in range(bench.n_rounds(3, 1)):
            for mode in modes:
                for (key, _), value in zip(figures, one(mode, f"{kind}.{mode}.{number}"), strict=True):
                    bench.add(f"{key}.{mode}", value)
    finally:
        swap.close()
    for mode in modes:
        for key, unit in figures:
            bench.publish_median(f"{key}.{mode}", unit)
    return modes
