// dot_general and convolution.
#include <array>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

// Sums of integers may be given as floats; otherwise kinds stay.
void require_product(const Operation& op, const Numbers& sizes) {
  const ElementType left = operand(op, 0).element, right = operand(op, 1).element, to = result(op).element;
  const auto is_whole = [](ElementType type) { return is_integer(type) || type == ElementType::kPred; };
  const auto are = [&](const auto& is) { return is(left) && is(right) && is(to); };
  const bool is_number = is_whole(left) && is_whole(right) ? is_whole(to) || is_float(to)
                         : is_complex(to)                  ? are(is_complex)
                                                           : is_float(to) && !is_complex(left) && !is_complex(right);
  require(op, is_number, "products of ", operand(op, 0).text(), " and ", operand(op, 1).text(), " are no ",
          result(op).text());
  require_result(op, to, sizes);
}

void dot_general(const Operation& op) {
  const Type &left = operand(op, 0), &right = operand(op, 1);
  const Numbers left_batch = dimensions(op, "lhs_batching_dimensions", left.rank());
  const Numbers right_batch = dimensions(op, "rhs_batching_dimensions", right.rank());
  const Numbers left_inner = dimensions(op, "lhs_contracting_dimensions", left.rank());
  const Numbers right_inner = dimensions(op, "rhs_contracting_dimensions", right.rank());
  Numbers sizes;
  const auto require_pairs_of = [&](const Numbers& of_left, const Numbers& of_right, const char* what, bool is_kept) {
    require(op, of_left.size() == of_right.size(), of_left.size(), " and ", of_right.size(), " ", what, " dimensions");
    for (size_t i = 0; i < of_left.size(); ++i) {
      const int64_t size = left.dims[static_cast<size_t>(of_left[i])];
      const int64_t other = right.dims[static_cast<size_t>(of_right[i])];
      require(op, same_size(size, other), what, " dimensions of the sizes ", size, " and ", other);
      if (is_kept) sizes.push_back(size == kDynamic ? other : size);
    }
  };
  require_pairs_of(left_batch, right_batch, "batching", true);
  require_pairs_of(left_inner, right_inner, "contracting", false);
  const auto append_rest = [&](const Type& type, const Numbers& batch, const Numbers& inner) {
    for (int64_t d = 0; d < type.rank(); ++d) {
      const bool is_batch = std::ranges::find(batch, d) != batch.end();
      const bool is_inner = std::ranges::find(inner, d) != inner.end();
      require(op, !is_batch || !is_inner, "dimension ", d, " is a batching and a contracting one");
      if (!is_batch && !is_inner) sizes.push_back(type.dims[static_cast<size_t>(d)]);
    }
  };
  append_rest(left, left_batch, left_inner);
  append_rest(right, right_batch, right_inner);
  require_product(op, sizes);
}

// --- convolution -----------------------------------------------------------------------------------------------------

// The role of each dimension of an operand or of the result; each is named once.
struct Layout {
  Numbers spatial;
  size_t first, second;
};

Layout layout_of(const Operation& op, int64_t rank, std::string_view spatial, std::string_view first,
                 std::string_view second) {
  Numbers all = dimensions(op, spatial, rank);
  require(op, static_cast<int64_t>(all.size()) == rank - 2, "'", spatial, "' has ", all.size(), " dimensions of ",
          rank - 2);
  Layout layout{all, static_cast<size_t>(op.integer(first)), static_cast<size_t>(op.integer(second))};
  for (const std::string_view name : {first, second}) {
    const int64_t dimension = op.integer(name);
    require_dimension(op, name, dimension, rank);
    require(op, std::ranges::find(all, dimension) == all.end(), "'", name, "' is dimension ", dimension,
            ", which has another meaning already");
    all.push_back(dimension);
  }
  return layout;
}

void require_groups(const Operation& op, int64_t size, int64_t groups, std::string_view name) {
  require(op, size == kDynamic || size % groups == 0, "'", name, "' is ", groups, ", which does not divide ", size);
}

int64_t divided(int64_t size, int64_t by) {
  return size == kDynamic ? kDynamic : size / by;
}

void convolution(const Operation& op) {
  const Type &input = operand(op), &kernel = operand(op, 1);
  const int64_t rank = input.rank();
  require(op, rank >= 2 && kernel.rank() == rank && result(op).rank() == rank, "operands and result are of the ranks ",
          rank, ", ", kernel.rank(), " and ", result(op).rank());
  const Layout from =
                   layout_of(op, rank, "input_spatial_dimensions", "input_batch_dimension", "input_feature_dimension"),
               weights = layout_of(op, rank, "kernel_spatial_dimensions", "kernel_input_feature_dimension",
                                   "kernel_output_feature_dimension"),
               to = layout_of(op, rank, "output_spatial_dimensions", "output_batch_dimension",
                              "output_feature_dimension");
  const int64_t feature_groups = op.integer("feature_group_count"), batch_groups = op.integer("batch_group_count");
  require(op, feature_groups > 0 && batch_groups > 0 && (feature_groups == 1 || batch_groups == 1), feature_groups,
          " groups of features and ", batch_groups, " of the batch, expected at least 1 of each, and 1 of one");
  const int64_t batch = input.dims[from.first], features = input.dims[from.second],
                outputs = kernel.dims[weights.second];
  require_groups(op, batch, batch_groups, "batch_group_count");
  require_groups(op, features, feature_groups, "feature_group_count");
  require_groups(op, outputs, batch_groups, "batch_group_count");
  require_groups(op, outputs, feature_groups, "feature_group_count");
  require(op, same_size(kernel.dims[weights.first], divided(features, feature_groups)), "a kernel for ",
          kernel.dims[weights.first], " features of ", features, " in ", feature_groups, " groups");
  const Numbers strides = positive_numbers(op, "window_strides", rank - 2),
                base_dilations = positive_numbers(op, "lhs_dilation", rank - 2),
                dilations = positive_numbers(op, "rhs_dilation", rank - 2);
  numbers(op, "window_reversal", rank - 2);
  const bool is_dynamic = op.op == Operator::kDynamicConv;  // whose padding is an operand
  const Numbers padding = is_dynamic ? Numbers() : pairs(op, "padding", rank - 2);
  Numbers sizes(static_cast<size_t>(rank));
  sizes[to.first] = divided(batch, batch_groups);
  sizes[to.second] = outputs;
  for (size_t i = 0; i < strides.size(); ++i) {
    const WindowsAlong along{.size = input.dims[static_cast<size_t>(from.spatial[i])],
                             .base_dilation = base_dilations[i],
                             .low = is_dynamic ? 0 : padding[2 * i],
                             .high = is_dynamic ? 0 : padding[2 * i + 1],
                             .window = kernel.dims[static_cast<size_t>(weights.spatial[i])],
                             .dilation = dilations[i],
                             .stride = strides[i]};
    const int64_t windows = windows_along(op, static_cast<size_t>(from.spatial[i]), along);
    sizes[static_cast<size_t>(to.spatial[i])] = is_dynamic ? kDynamic : windows;
  }
  require_product(op, sizes);
}

constexpr RuleRow kProductRules[] = {
    {Operator::kDotGeneral, dot_general},
    {Operator::kConvolution, convolution},
    {Operator::kDynamicConv, convolution},
};

}  // namespace

std::span<const RuleRow> product_rules() noexcept {
  return kProductRules;
}

}  // namespace mydev::stablehlo::verifier
