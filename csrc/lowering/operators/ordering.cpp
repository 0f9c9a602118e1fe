// Sorting, and the places of the largest or smallest elements, if the body compares as kernels do.
//
// Kernels put NaN behind all others, and take zeros of either sign for equal, as JAX's comparators do.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lowering/frame.h"
#include "lowering/loops/body_text.h"
#include "lowering/operators/order.h"
#include "runtime/frame/dtype.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// Whether kernels know the order of the type; they know u16 to u64 as signed types.
bool is_ordered(ElementType type) noexcept {
  const ElementRow& row = element_row(type);
  const bool is_number = row.kind != ElementKind::kComplex;
  const int least = row.kind == ElementKind::kFloat ? 16 : 8;
  return has_kernels(type) && is_number && (row.kind == ElementKind::kBool || row.bits >= least);
}

// --- sort ------------------------------------------------------------------------------------------------------------

enum class Order : uint8_t { kNumbers, kBits };
// An operand, or its real or imaginary parts, by which elements are compared.
struct Key {
  size_t operand;
  const char* part;  // "real", "imag" or ""
  bool descending;
  Order order;
};

// The text of a comparison of two elements by the key. JAX makes zeros equal, and all NaN equal, before it compares by
// TOTALORDER: `is_canonical`.
std::string comparison_text(const Key& key, const std::string& direction, bool is_canonical) {
  const auto element = [&](size_t index) {
    std::string x = "a" + std::to_string(2 * key.operand + index);
    if (*key.part != '\0') x = std::string(key.part) + "(" + x + ")";
    return is_canonical ? "select(compare_NE(" + x + "," + x + "),nan,select(compare_EQ(" + x + ",0),0," + x + "))" : x;
  };
  const bool is_total = is_canonical || key.order == Order::kBits;
  return "compare_" + direction + (is_total ? "_TOTALORDER(" : "(") + element(0) + "," + element(1) + ")";
}

// The key by which `first` compares; `equal` must compare for equality by the same one, unless it is nullptr.
std::optional<Key> key_of(const Operation& op, const Region& region, const Value& first, const Value* equal) {
  const std::string before = body_text(region, first), same = equal == nullptr ? "" : body_text(region, *equal);
  for (size_t operand = 0; operand < op.results.size(); ++operand) {
    const ElementType type = op.operand(operand).type->element;
    const bool is_complex = has_kernels(type) && element_row(type).kind == ElementKind::kComplex;
    if (!is_complex && !is_ordered(type)) continue;
    const bool is_float = is_complex || element_row(type).kind == ElementKind::kFloat;
    for (const char* part : {"", "real", "imag"}) {
      if ((*part != '\0') != is_complex) continue;
      for (const bool descending : {false, true}) {
        for (const Order order : {Order::kNumbers, Order::kBits}) {
          if (order == Order::kBits && !is_float) continue;
          const Key key{operand, part, descending, order};
          const auto matches = [&](bool is_canonical) {
            return before == comparison_text(key, descending ? "GT" : "LT", is_canonical) &&
                   (equal == nullptr || same == comparison_text(key, "EQ", is_canonical));
          };
          if (matches(false) || (order == Order::kNumbers && matches(true))) return key;
        }
      }
    }
  }
  return std::nullopt;
}

// The keys of a comparator, from the one that decides first: "first, or equal and (next ...)". None: it compares
// otherwise.
std::vector<Key> keys_of(const Operation& op, const Region& region) {
  std::vector<Key> keys;
  const auto definition = [](const Value& value, Operator wanted) {
    return value.definition != nullptr && value.definition->op == wanted ? value.definition : nullptr;
  };
  for (const Value* rest = region.results()[0]; rest != nullptr;) {
    const Operation* either = definition(*rest, Operator::kOr);
    const Operation* both = either == nullptr ? nullptr : definition(either->operand(1), Operator::kAnd);
    const std::optional<Key> key = both == nullptr ? key_of(op, region, *rest, nullptr)
                                                   : key_of(op, region, either->operand(0), &both->operand(0));
    if (!key) return {};
    keys.push_back(*key);
    rest = both == nullptr ? nullptr : &both->operand(1);
  }
  return keys;
}

// The tensor that a kernel sorts by.
program::Operand sort_key(Emitter& emit, program::Operand operand, const Key& key) {
  if (*key.part != '\0') operand = std::string_view(key.part) == "real" ? real_part(operand) : imaginary_part(operand);
  return (key.order == Order::kBits ? in_total_order(emit, operand) : in_signed_order(emit, {operand})).view;
}

// The number of elements along the dimension that users take. It is less than all if all users are slices, as for the k
// largest.
int64_t kept_of(Context& context, const Operation& op, size_t dimension) {
  const int64_t length = op.result(0).type->dims[dimension];
  if (op.op != Operator::kSort) return length;
  int64_t kept = 0;
  for (const Value* result : op.results) {
    if (context.uses_of(*result).count == 0) continue;
    const Operation* user = context.only_user(*result);
    if (user == nullptr || user->op != Operator::kSlice || user->integers("start_indices")[dimension] != 0 ||
        user->integers("strides")[dimension] != 1) {
      return length;
    }
    kept = std::max(kept, user->result().type->dims[dimension]);
  }
  return kept;
}

bool is_iota_along(const Value& value, int64_t dimension) {
  const Operation* op = value.definition;
  return op != nullptr && op->op == Operator::kIota && op->integer("iota_dimension") == dimension;
}

// Sorts by the last key first, and then by those before it: equal elements stay in their order. `op`: a sort, or the
// first few elements of one.
bool lower_sort(Frame& frame, const Operation& op, const Region& comparator, int64_t dimension) {
  const std::vector<Key> keys = keys_of(op, comparator);
  const Sizes& sizes = op.operand(0).type->dims;
  if (keys.empty() || sizes.empty() || is_empty(sizes)) return false;
  Emitter& emit = frame.emit;
  if (dimension < 0) dimension += static_cast<int64_t>(sizes.size());
  const auto d = static_cast<size_t>(dimension);
  Sizes lines = {1, sizes[d], 1};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != d) lines[i < d ? 0 : 2] *= sizes[i];
  }
  const auto as_lines = [&](const program::Operand& dense) {
    return dense_reshaped(dense, {lines[0], dense.sizes[d], lines[2]});
  };
  const std::array along = {int_attribute("dim", 1)};
  program::Operand values, indices;
  const auto in_order = [&](const program::Operand& from, const program::Operand& places) {
    const program::Operand to = emit.temporary(from.dtype, places.sizes);
    emit.launch("mydev.gather", {as_lines(to)}, {emit.reshape(from, lines), as_lines(places)}, along);
    return to;
  };
  for (size_t k = keys.size(); k-- > 0;) {
    program::Operand key = sort_key(emit, frame.view(op.operand(keys[k].operand)), keys[k]);
    const bool is_first_pass = k + 1 == keys.size();
    if (!is_first_pass) key = in_order(key, indices);
    Sizes kept = sizes;
    if (k == 0) kept[d] = kept_of(frame.context, op, d);
    values = emit.temporary(key.dtype, kept);
    const program::Operand places = emit.temporary(MYDEV_S64, kept);
    const std::array descending = {bool_attribute("descending", keys[k].descending)};
    emit.launch("mydev.sort", {as_lines(values), as_lines(places)}, {emit.reshape(key, lines)}, descending);
    indices = is_first_pass ? places : in_order(indices, places);
  }
  for (size_t k = 0; k < op.results.size(); ++k) {
    const program::Operand& from = frame.view(op.operand(k));
    const bool is_sorted = k == keys[0].operand && values.dtype == from.dtype;
    const program::Operand sorted = is_iota_along(op.operand(k), dimension) ? emit.converted({indices}, from.dtype).view
                                    : is_sorted                             ? values
                                                                            : in_order(from, indices);
    frame.set(op.result(k), {sorted});
  }
  return true;
}

// --- argmax, argmin --------------------------------------------------------------------------------------------------

// The kernel that reduces to (value, place) as the body does: it gives the first place of equal elements, and of NaN
// the first.
const char* arg_kernel(const Operation& op) {
  const std::string value = body_text(op.region(), 0), place = body_text(op.region(), 1);
  for (const bool largest : {true, false}) {
    const std::string better = largest ? "compare_GT(a0,a2)" : "compare_LT(a0,a2)";
    for (const std::string& taken : {"or(" + better + ",compare_NE(a0,a0))", better}) {
      if (value == "select(" + taken + ",a0,a2)" &&
          place == "select(or(" + taken + ",and(compare_EQ(a0,a2),compare_LT(a1,a3))),a1,a3)") {
        return largest ? "mydev.max_with_index" : "mydev.min_with_index";
      }
    }
  }
  return nullptr;
}

// Whether no element is worse than this value.
bool is_worst(ElementType type, const mydev_scalar& value, bool largest) noexcept {
  const ElementRow& row = element_row(type);
  switch (row.kind) {
    case ElementKind::kFloat:
      return std::isinf(value.f) && std::signbit(value.f) == largest;
    case ElementKind::kSigned:
      return value.i == (largest ? INT64_MIN : INT64_MAX) >> (64 - row.bits);
    case ElementKind::kUnsigned:
      return static_cast<uint64_t>(value.i) << (64 - row.bits) == (largest ? 0 : UINT64_MAX << (64 - row.bits));
    default:
      return value.i == (largest ? 0 : 1);
  }
}

bool lower_arg_reduction(Frame& frame, const Operation& op) {
  const Type& type = *op.operand(0).type;
  const Sizes dimensions = op.integers("dimensions");
  const bool has_kernel = op.result(0).type->element == type.element && is_ordered(type.element);
  if (dimensions.size() != 1 || is_empty(type.dims) || !has_kernel || !is_iota_along(op.operand(1), dimensions[0])) {
    return false;
  }
  const char* kernel = arg_kernel(op);
  const std::optional<mydev_scalar>&worst = frame[op.operand(2)].splat, &first = frame[op.operand(3)].splat;
  if (kernel == nullptr || !worst || !first || first->i != 0 ||
      !is_worst(type.element, *worst, std::string_view(kernel) == "mydev.max_with_index")) {
    return false;
  }
  Emitter& emit = frame.emit;
  const auto d = static_cast<size_t>(dimensions[0]);
  const auto over_operand = [&](program::Operand view) {  // with the operand's sizes
    view.sizes = type.dims;
    view.strides.insert(view.strides.begin() + static_cast<std::ptrdiff_t>(d), 0);
    return view;
  };
  const Tensor x = in_signed_order(emit, frame[op.operand(0)]);
  const program::Operand values = emit.temporary(x.view.dtype, op.result(0).type->dims);
  const program::Operand places = emit.temporary(MYDEV_S64, op.result(1).type->dims);
  emit.launch(kernel, {over_operand(values), over_operand(places)}, {x.view});
  frame.set(op.result(0), from_signed_order(emit, {values}, dtype_of(type.element)));
  frame.set(op.result(1), emit.converted({places}, dtype_of(op.result(1).type->element)));
  return true;
}

}  // namespace

bool lower_ordering(Frame& frame, const Operation& op) {
  if (op.op == Operator::kSort) return lower_sort(frame, op, op.region(), op.integer("dimension", -1));
  if (op.op == Operator::kCustomCall && op.string("call_target_name") == kApproxTopK) {
    const ApproxTopK exact = approx_top_k_of(frame.context.module, op);
    return lower_sort(frame, op, *exact.comparator->body, exact.dimension);
  }
  return op.op == Operator::kReduce && op.results.size() == 2 && lower_arg_reduction(frame, op);
}

}  // namespace mydev::lowering
