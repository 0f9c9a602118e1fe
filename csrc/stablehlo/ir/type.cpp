#include "stablehlo/ir/type.h"

#include <algorithm>

namespace mydev::stablehlo {

namespace {

bool same_types(const std::vector<const Type*>& left, const std::vector<const Type*>& right) noexcept {
  return std::ranges::equal(left, right, [](const Type* a, const Type* b) { return a == b || *a == *b; });
}

void append_sizes(std::string& text, const std::vector<int64_t>& sizes) {
  for (const int64_t size : sizes) {
    text += (size == kDynamic ? "?" : std::to_string(size)) + "x";
  }
}

void append_list(std::string& text, const std::vector<const Type*>& types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i != 0) text += ", ";
    text += types[i]->text();
  }
}

std::string shaped_text(const Type& type, const char* name) {
  std::string text = std::string(name) + "<";
  append_sizes(text, type.dims);
  text += element_row(type.element).mlir_name;
  if (!type.bounds.empty()) {
    text += ", #stablehlo.bounds<";
    for (size_t d = 0; d < type.bounds.size(); ++d) {
      if (d != 0) text += ", ";
      text += type.bounds[d] == kDynamic ? "?" : std::to_string(type.bounds[d]);
    }
    text += '>';
  }
  return text + ">";
}

std::string function_text(const Type& type) {
  std::string text = "(";
  append_list(text, type.inputs);
  text += ") -> ";
  const bool parentheses = type.results.size() != 1;
  if (parentheses) text += '(';
  append_list(text, type.results);
  return parentheses ? text + ")" : text;
}

}  // namespace

bool Type::is_static() const noexcept {
  return std::ranges::none_of(dims, [](int64_t size) { return size == kDynamic; });
}

int64_t Type::element_count() const noexcept {
  int64_t count = 1;
  for (const int64_t size : dims) {
    if (size == kDynamic) return kDynamic;
    count *= size;
  }
  return count;
}

int64_t Type::bytes() const noexcept {
  const int64_t count = element_count();
  return count == kDynamic ? kDynamic : count * element_bytes(element);
}

std::string Type::text() const {
  switch (kind) {
    case TypeKind::kTensor:
      return shaped_text(*this, "tensor");
    case TypeKind::kBuffer:
      return shaped_text(*this, "memref");
    case TypeKind::kUnranked:
      return "tensor<*x" + std::string(element_row(element).mlir_name) + ">";
    case TypeKind::kElement:
      return std::string(element_row(element).mlir_name);
    case TypeKind::kToken:
      return "!stablehlo.token";
    case TypeKind::kTuple: {
      std::string text = "tuple<";
      append_list(text, inputs);
      return text + ">";
    }
    case TypeKind::kFunction:
      return function_text(*this);
    case TypeKind::kWitness:
      return "!shape.witness";
    case TypeKind::kNone:
      break;
  }
  return "none";
}

bool operator==(const Type& left, const Type& right) noexcept {
  return left.kind == right.kind && left.element == right.element && left.dims == right.dims &&
         left.bounds == right.bounds && same_types(left.inputs, right.inputs) &&
         same_types(left.results, right.results);
}

bool compatible_shapes(const Type& left, const Type& right) noexcept {
  return std::ranges::equal(left.dims, right.dims,
                            [](int64_t a, int64_t b) { return a == b || a == kDynamic || b == kDynamic; });
}

bool sizes_are_valid(const Type& type) noexcept {
  int64_t bytes = element_bytes(type.element);
  for (const int64_t size : type.dims) {
    if (size == kDynamic) continue;
    if (size < 0) return false;
    // A size of zero does not hide the others: strides are computed from them.
    if (size != 0 && (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMostTensorBytes)) return false;
  }
  return true;
}

}  // namespace mydev::stablehlo
