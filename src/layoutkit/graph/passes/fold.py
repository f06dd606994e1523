"""The passes that simplify a graph, in their order.

Each takes a graph and what is known of its tensors, and returns a graph. `folded` runs them all.
"""

from __future__ import annotations

from ..ir import Graph
from .affine import affine_into_makers, as_affine
from .attention import attentions_as_products
from .axes_last import channels_in_place
from .constants import constants_into_attributes, fold_constants
from .einsum import einsums_as_products
from .elementwise import choices_as_sums
from .epilogues import activations_into_epilogues, pads_into_convolutions, residuals
from .identities import equal_nodes, means_as_pooling, remove_identities
from .integer_filters import filters_as_numbers
from .normalisations import group_normalisations, parameters_into_normalisations, spelled_normalisations
from .patterns import activations
from .products import attention, scales_and_biases_into_products, views_into_products
from .quantised import kept_as_integers, moved_as_numbers
from .recurrent import recurrent_products
from .rewriting import Knowledge
from .shuffles import shuffles
from .tables import bytes_as_tables
from .tokens import transposes_at_images

PASSES = (
    moved_as_numbers, kept_as_integers, filters_as_numbers, bytes_as_tables, fold_constants, recurrent_products,
    einsums_as_products, attentions_as_products, constants_into_attributes, shuffles, remove_identities, activations,
    pads_into_convolutions, equal_nodes, group_normalisations, spelled_normalisations, parameters_into_normalisations,
    channels_in_place, parameters_into_normalisations, attention, scales_and_biases_into_products,
    views_into_products, transposes_at_images, as_affine, affine_into_makers, affine_into_makers, residuals,
    means_as_pooling, activations_into_epilogues, choices_as_sums,
)  # fmt: skip


def folded(graph: Graph, known: Knowledge) -> Graph:
    """The graph after all passes; tensors that they add are added to `known`."""
    for simplify in PASSES:
        before = {*graph.constants}
        graph = simplify(graph, known)
        for name in before - graph.constants.keys():  # merged into others: filters are large
            if name in known:
                known[name] = known[name]._replace(value=None)
    return graph
