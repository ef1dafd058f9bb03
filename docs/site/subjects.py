"""The subjects of the standard operators."""

from __future__ import annotations

from typing import NamedTuple

from opwright_std.rows import ROWS


class Subject(NamedTuple):
    """A group of related operators.

    Attributes
    ----------
    title, sentence : str
    modules : str
        Modules below ``opwright_std.operators``, separated by blanks.
    """

    title: str
    sentence: str
    modules: str


SUBJECTS = (
    Subject(
        "Activations",
        "Functions that are applied between layers, element by element.",
        "activations kinks smooth prelu maxout",
    ),
    Subject(
        "Element-wise arithmetic",
        "One result for each element, with NumPy's broadcasting for two operands.",
        "unary increment trigonometry hyperbolic logarithms special rounding division binary lerp"
        " add_n",
    ),
    Subject(
        "Comparison, logic and bits",
        "Results are bools, selections between two operands, or integers with changed bits.",
        "comparison logical where bits",
    ),
    Subject(
        "Reductions and statistics",
        "One result for all elements along some axes; `masked` and `nan` variants skip elements.",
        "reduction masked statistics quantile counting",
    ),
    Subject(
        "Along an axis",
        "Order along an axis: running sums, sorting, differences, distinct elements.",
        "cumulative diff top_k sort unique_consecutive",
    ),
    Subject(
        "Shapes and layout",
        "The same elements with a different shape, order, dtype or number of repetitions.",
        "reshape flatten squeeze transpose concat split stack tile flip triangle pad expand unfold"
        " pixel_shuffle cast quantize assign shape",
    ),
    Subject(
        "Indexing",
        "Reads and writes of elements whose positions are attributes or data.",
        "slice gather gather_nd scatter scatter_reduce indexed_updates masked_elements multiplex"
        " one_hot nonzero",
    ),
    Subject(
        "Creation and random numbers",
        "Tensors that are computed only from attributes.",
        "fill creation random random_integers signal_windows",
    ),
    Subject(
        "Products and linear algebra",
        "Products of matrices and vectors, distances, systems of equations.",
        "matmul grouped_matmul fc gemm einsum vectors diagonal linear_algebra determinant cdist"
        " cos_sim",
    ),
    Subject(
        "Fourier transforms",
        "Transforms along one axis, several axes, or windows of a signal.",
        "fourier fourier_nd fourier_shifts stft",
    ),
    Subject(
        "Convolution and pooling",
        "Windows that slide along one, two or three axes.",
        "convolution conv_transpose deform_conv2d max_pool avg_pool adaptive_pool lp_pool"
        " max_unpool",
    ),
    Subject(
        "Images and boxes",
        "Resizing, sampling at positions, and the boxes of detection.",
        "interpolate resize affine_grid grid_sample roi_align roi_pool iou box_coder prior_box nms"
        " multiclass_nms",
    ),
    Subject(
        "Normalization, softmax and dropout",
        "Results with mean 0, variance 1 or sum 1 along some axes, and randomly dropped elements.",
        "batch_norm layer_norm rms_norm group_norm lrn softmax log_softmax dropout",
    ),
    Subject(
        "Attention and embeddings",
        "Parts of transformers: attention with and without a cache, positions, tables of vectors.",
        "scaled_dot_product_attention dropout_attention cached_attention multi_head_attention"
        " rotary_embedding embedding embedding_bag",
    ),
    Subject(
        "Recurrent layers and sequences",
        "Layers over time, and sequences of different lengths.",
        "recurrent general_lstm recurrent_cells sequence sequence_pool sequence_layers",
    ),
    Subject(
        "Losses",
        "Differences between predictions and targets.",
        "cross_entropy softmax_with_cross_entropy sigmoid_cross_entropy_with_logits nll mse"
        " pointwise_losses ranking_losses likelihoods margin_losses weighted_losses ctc_loss"
        " cosine_embedding_loss linear_chain_crf sampled_losses label_smooth",
    ),
    Subject(
        "Metrics",
        "Scores of predictions, without gradients.",
        "accuracy auc precision_recall edit_distance",
    ),
    Subject(
        "Optimizers",
        "Updates of parameters from their gradients, in place.",
        "optimizers adam adam_variants adaptive_optimizers proximal_optimizers sparse_optimizers"
        " clip_by_norm",
    ),
    Subject(
        "Control flow and checks",
        "Branches and loops over blocks, printed values and assertions.",
        "cond loops watching",
    ),
)


def find_subjects() -> dict[str, Subject]:
    """Return the subject of each standard operator; raise KeyError for an unlisted module."""
    subjects = {module: subject for subject in SUBJECTS for module in subject.modules.split()}
    return {
        type: subjects[row.module]
        for row in ROWS
        if not (row.kernel_only or row.hidden)
        for type in row.types.split()
    }
