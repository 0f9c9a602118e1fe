// Compiling a signature: copies in full size, and the checks that it does not contradict itself.
#include "kernels/spec/signature.h"

#include <limits>
#include <set>
#include <string_view>

#include "kernels/spec/struct_copy.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

constexpr uint32_t kMaxEntries = 1024;  // of operands, results, attributes: more is a table that was read wrongly
constexpr uint32_t kMaxDefaultCount = 1U << 20;
constexpr uint32_t kOperandFlags = MYDEV_OPERAND_OPTIONAL | MYDEV_OPERAND_VARIADIC | MYDEV_OPERAND_STRIDED;

constexpr uint64_t kBools = dtypes_of(DtypeKind::kBool);
constexpr uint64_t kIntegers = dtypes_of(DtypeKind::kSigned) | dtypes_of(DtypeKind::kUnsigned);
constexpr uint64_t kFloatDtypes = dtypes_of(DtypeKind::kFloat);
constexpr uint64_t kComplexes = dtypes_of(DtypeKind::kComplex);
constexpr uint64_t kAllDtypes =
    kBools | kIntegers | kFloatDtypes | kComplexes | dtypes_of(DtypeKind::kNarrowFloat) | dtypes_of(DtypeKind::kToken);

// The dtypes that an attribute of a kind may declare; 0: none.
uint64_t dtypes_of_kind(uint16_t kind) {
  switch (kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return kBools;
    case MYDEV_ATTRIBUTE_INT:
      return kIntegers;
    case MYDEV_ATTRIBUTE_FLOAT:
      return kFloatDtypes;
    case MYDEV_ATTRIBUTE_COMPLEX:
      return kComplexes;
    case MYDEV_ATTRIBUTE_ARRAY:
      return kIntegers | kBools | MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);
    default:
      return 0;
  }
}

// dtypes and attributes share this test: bit 0 stands for "not said".
bool has_bit(uint64_t set, uint32_t dtype) {
  return dtype < 64 && (set & (UINT64_C(1) << dtype)) != 0;
}

bool is_identifier(const char* name) {
  if (name == nullptr || *name == '\0' || (*name >= '0' && *name <= '9')) return false;
  const std::string_view text(name);
  return text.size() <= 128 &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string_view::npos;
}

class Checker {
 public:
  Checker(const mydev_kernel& kernel, const CompiledSignature& signature) : kernel_(kernel), signature_(signature) {}

  void check() {
    for (uint32_t i = 0; i < signature_.num_operands; ++i) check_operand(i);
    for (uint32_t i = 0; i < signature_.num_results; ++i) check_result(i);
    for (uint32_t i = 0; i < signature_.num_attributes; ++i) check_attribute(signature_.attribute_values[i]);
    bool all_alias = true;
    for (const mydev_operand& result : signature_.result_values) {
      all_alias = all_alias && (result.alias >= 0 || is_variadic(result));
    }
    require(all_alias || signature_.shapes != nullptr || signature_.infer_shapes != nullptr || signature_.text,
            "it has results and neither a shape rule nor infer_shapes");
    require(signature_.text || (signature_.types == nullptr && signature_.expression == nullptr),
            "it has types or an expression, and no contract");
  }

 private:
  template <typename... Args>
  void require(bool condition, const Args&... args) const {
    MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "signature of kernel '", kernel_.name, "': ", args...);
  }

  void check_name(const char* what, uint32_t index, const char* name, bool unique) {
    require(is_identifier(name) && !is_reserved_word(name), what, " ", index, " is named '",
            name != nullptr ? name : "(null)", "'; give an identifier that is no reserved word");
    require(!unique || names_.insert(name).second, "the name '", name, "' is there twice");
  }

  bool required_single(int32_t index) const {
    return index >= 0 && index < static_cast<int32_t>(signature_.num_operands) &&
           (signature_.operand_values[static_cast<size_t>(index)].flags &
            (MYDEV_OPERAND_OPTIONAL | MYDEV_OPERAND_VARIADIC)) == 0;
  }

  void check_operand(uint32_t index) {
    const mydev_operand& operand = signature_.operand_values[index];
    check_name("operand", index, operand.name, true);
    require(operand.dtypes != 0 && (operand.dtypes & ~kAllDtypes) == 0, "operand '", operand.name,
            "' has no dtypes, or unknown ones; give MYDEV_DTYPE_BIT of each that it takes");
    require(operand.like == -1 || (required_single(operand.like) && operand.like != static_cast<int32_t>(index)),
            "operand '", operand.name, "' has like = ", operand.like,
            "; give -1 or the index of another operand that is neither optional nor variadic");
    require(operand.alias == -1, "operand '", operand.name, "' has alias = ", operand.alias,
            "; give -1: it is results that alias operands");
    require(operand.rank_min >= 0 && operand.rank_min <= MYDEV_MAX_SHAPE_RANK &&
                (operand.rank_max == -1 ||
                 (operand.rank_max >= operand.rank_min && operand.rank_max <= MYDEV_MAX_SHAPE_RANK)),
            "operand '", operand.name, "' has ranks ", operand.rank_min, " to ", operand.rank_max,
            "; give 0 <= rank_min <= rank_max <= 32, or rank_max = -1 for any");
    require((operand.flags & ~kOperandFlags) == 0, "operand '", operand.name, "' has unknown flags ", operand.flags);
    const bool variadic = is_variadic(operand);
    require(!variadic || index + 1 == signature_.num_operands, "operand '", operand.name,
            "' is variadic; only the last one may be");
    require(!variadic || (operand.flags & MYDEV_OPERAND_OPTIONAL) == 0, "operand '", operand.name,
            "' is both variadic and optional");
    require((operand.flags & MYDEV_OPERAND_STRIDED) == 0 || kernel_.kind == MYDEV_KIND_FRAME, "operand '", operand.name,
            "' is STRIDED, which only kernels of kind FRAME can be given");
  }

  void check_variadic_result(uint32_t index, const mydev_operand& result) const {
    require(index + 1 == signature_.num_results, "result '", result.name, "' is variadic; only the last one may be");
    require(result.dtypes == 0 && result.alias == -1 && has_variadic_operand(signature_) &&
                result.like == static_cast<int32_t>(signature_.num_operands) - 1,
            "result '", result.name, "' is variadic; then it is `like` the variadic operand, with no dtypes or alias");
  }

  void check_result(uint32_t index) {
    const mydev_operand& result = signature_.result_values[index];
    check_name("result", index, result.name, false);
    require(result.flags == 0 || result.flags == MYDEV_OPERAND_VARIADIC, "result '", result.name, "' has flags ",
            result.flags, "; a result has VARIADIC or none");
    if (is_variadic(result)) return check_variadic_result(index, result);
    const bool has_one =
        result.dtypes != 0 && (result.dtypes & ~kAllDtypes) == 0 && (result.dtypes & (result.dtypes - 1)) == 0;
    require(result.dtypes == 0 ? required_single(result.like) : has_one, "result '", result.name,
            "' must have exactly one dtype, or none and the dtype of an operand (like) that is neither optional nor "
            "variadic");
    require(result.alias == -1 || required_single(result.alias), "result '", result.name,
            "' has alias = ", result.alias,
            "; give -1 or the index of an operand that is neither optional nor variadic");
    require(result.alias == -1 || aliased_.insert(result.alias).second, "two results alias operand ", result.alias);
  }

  void check_attribute(const mydev_attribute_spec& spec) {
    const mydev_attribute& value = spec.value;
    check_name("attribute", static_cast<uint32_t>(&spec - signature_.attribute_values.data()), value.name, true);
    require(value.kind <= MYDEV_ATTRIBUTE_ARRAY, "attribute '", value.name, "' is of kind ", value.kind,
            "; give BOOL to ARRAY: an operator takes no dictionaries");
    const uint64_t dtypes = dtypes_of_kind(value.kind);
    const bool unsaid = value.dtype == MYDEV_DTYPE_INVALID && value.kind != MYDEV_ATTRIBUTE_ARRAY;
    require(unsaid || has_bit(dtypes, value.dtype), "attribute '", value.name, "' has dtype ",
            dtype_name(static_cast<mydev_dtype>(value.dtype)), ", which its kind cannot have");
    require((spec.flags & ~static_cast<uint32_t>(MYDEV_ATTRIBUTE_REQUIRED)) == 0, "attribute '", value.name,
            "' has unknown flags ", spec.flags);
    if ((spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0 || value.kind < MYDEV_ATTRIBUTE_STRING) return;
    require(value.count <= kMaxDefaultCount, "the default of attribute '", value.name, "' has ", value.count,
            " entries; the limit is ", kMaxDefaultCount);
    require(value.count == 0 || value.value.data != nullptr, "the default of attribute '", value.name,
            "' is NULL; set MYDEV_ATTRIBUTE_REQUIRED if it has none");
  }

  const mydev_kernel& kernel_;
  const CompiledSignature& signature_;
  std::set<std::string_view> names_;
  std::set<int32_t> aliased_;
};

// Copies a table of `count` pointers to structs; `minimum` as for copy_struct.
template <typename T>
void copy_table(const T* const* table, uint32_t count, size_t minimum, const std::string& what,
                std::vector<T>& values) {
  MYDEV_CHECK(count <= kMaxEntries, MYDEV_INVALID_ARGUMENT, what, ": there are ", count, "; the limit is ",
              kMaxEntries);
  MYDEV_CHECK(count == 0 || table != nullptr, MYDEV_INVALID_ARGUMENT, what, ": the table is NULL");
  values.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    values.push_back(copy_struct(table[i], minimum, (what + " " + std::to_string(i)).c_str()));
  }
}

template <typename T>
void point_to(const std::vector<T>& values, std::vector<const T*>& pointers, const T* const*& table, uint32_t& count) {
  for (const T& value : values) pointers.push_back(&value);
  table = pointers.data();
  count = static_cast<uint32_t>(pointers.size());
}

}  // namespace

CompiledSignature::CompiledSignature(const mydev_kernel& kernel)
    : mydev_signature(copy_struct(kernel.signature, MYDEV_END_OF(mydev_signature, infer_shapes),
                                  (std::string("signature of kernel '") + kernel.name + "'").c_str())) {
  const std::string of = std::string(" of kernel '") + kernel.name + "'";
  if (contract != nullptr) {
    read_text(kernel);
  } else {
    copy_table(operands, num_operands, MYDEV_END_OF(mydev_operand, doc), "operands" + of, operand_values);
    copy_table(results, num_results, MYDEV_END_OF(mydev_operand, doc), "results" + of, result_values);
    copy_table(attributes, num_attributes, MYDEV_END_OF(mydev_attribute_spec, doc), "attributes" + of,
               attribute_values);
  }
  point_to(operand_values, operand_pointers, operands, num_operands);
  point_to(result_values, result_pointers, results, num_results);
  point_to(attribute_values, attribute_pointers, attributes, num_attributes);
  Checker(kernel, *this).check();
  if (shapes != nullptr) rule.emplace(shapes, *this);
}

}  // namespace mydev
