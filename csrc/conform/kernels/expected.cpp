#include "conform/kernels/expected.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "conform/kernels/planned_launch.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::conform {

namespace {

ExpectedResult nothing_yet(const Operand& result) {
  const size_t places = result.absent ? 0 : element_count(result.places());
  return {std::vector<unsigned char>(places * result.element_size()), std::vector<bool>(places, true)};
}

int64_t domain_value(const Value& value, int64_t /*domain*/, mydev_dtype dtype) {
  return scalar_kind(dtype) == ScalarKind::kInteger ? value.integer : static_cast<int64_t>(value.number.real());
}
double domain_value(const Value& value, double /*domain*/, mydev_dtype /*dtype*/) {
  return value.number.real();
}
std::complex<double> domain_value(const Value& value, std::complex<double> /*domain*/, mydev_dtype /*dtype*/) {
  return value.number;
}

template <typename Domain>
Domain attribute_value(const mydev_attribute& attribute, size_t position) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_FLOAT:
      return static_cast<Domain>(attribute.value.f);
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return static_cast<Domain>(attribute.value.floats[position]);
    case MYDEV_ATTRIBUTE_COMPLEX:
      if constexpr (std::is_same_v<Domain, std::complex<double>>) return {attribute.value.c[0], attribute.value.c[1]};
      return static_cast<Domain>(attribute.value.c[0]);
    default:
      return static_cast<Domain>(static_cast<double>(attribute.value.i));
  }
}

// --- by the expression -----------------------------------------------------------------------------------------------

template <typename Domain>
class ByExpression {
 public:
  explicit ByExpression(const ContractFrame& frame)
      : frame_(frame),
        contract_(frame.contract()),
        type_(frame.dtypes().empty() ? MYDEV_F32 : frame.dtypes().front()) {}

  std::vector<ExpectedResult> results() const {
    std::vector<ExpectedResult> found;
    for (size_t i = 0; i < frame_.num_results(); ++i) {
      const Operand& result = frame_.operands()[i];
      ExpectedResult expected = nothing_yet(result);
      if (!result.absent && result.is_reduced()) {
        reduce(result, expected);
      } else if (!result.absent) {
        compute(result, expected);
      }
      found.push_back(std::move(expected));
    }
    return found;
  }

 private:
  size_t result_of(const Operand& result) const {
    const auto& results = contract_.expression.results();
    const auto same = [&](const auto& r) { return r.name.empty() || r.name == result.contract->name; };
    return static_cast<size_t>(std::find_if(results.begin(), results.end(), same) - results.begin());
  }
  // The operand of that name beside an element of a list; nullptr for an attribute, or if there is none.
  const Operand* operand(const std::string& name, size_t position) const {
    for (const ContractOperand& o : contract_.operands) {
      if (o.name == name) return frame_.find(name, o.is_list ? position : 0);
    }
    return nullptr;
  }
  static bool is_uniform(const Operand& operand) { return operand.is_number || operand.sizes.empty(); }

  Series<Domain> series(const std::string& name, const std::vector<size_t>& indices, size_t position) const {
    if (const mydev_attribute* attribute = frame_.find_attribute(name)) {
      return {{attribute_value<Domain>(*attribute, position)}, true};
    }
    for (const ContractAttribute& attribute : contract_.attributes) {
      if (attribute.name == name) return {{static_cast<Domain>(attribute.otherwise.value_or(0))}, true};
    }
    const Operand* found = operand(name, position);
    if (found == nullptr || found->absent) return {{Domain{1}}, true};
    if (is_uniform(*found)) return {{domain_value(found->get(0), Domain{}, found->dtype)}, true};
    Series<Domain> values;
    values.uniform = false;
    for (const size_t index : indices) values.values.push_back(domain_value(found->get(index), Domain{}, found->dtype));
    return values;
  }
  Series<Domain> evaluate(const Operand& result, const std::vector<size_t>& indices) const {
    std::vector<Series<Domain>> inputs;
    for (const std::string& name : contract_.expression.names()) {
      inputs.push_back(series(name, indices, result.position));
    }
    return contract_.expression.evaluate<Domain>(result_of(result), inputs, indices.size(), type_);
  }

  static void set(const Operand& result, ExpectedResult& expected, size_t place, Domain number) {
    Value value = value_of(number);
    if (result.dtype == MYDEV_PRED) value.integer = number != Domain{} ? 1 : 0;
    store_element(result.dtype, expected.elements.data() + place * result.element_size(), value);
  }

  // Computes element by element; a result without dimensions is that of all elements.
  void compute(const Operand& result, ExpectedResult& expected) const {
    size_t count = result.count();
    for (const ContractOperand& o : contract_.operands) {
      const Operand* found = operand(o.name, result.position);
      const bool has_count = found != nullptr && !found->absent && !is_uniform(*found);
      if (result.sizes.empty() && has_count) count = found->count();
    }
    std::vector<size_t> indices(count);
    std::iota(indices.begin(), indices.end(), size_t{0});
    const Series<Domain> values = evaluate(result, indices);
    for (size_t i = 0; i < result.count(); ++i) set(result, expected, i, values.values[values.uniform ? 0 : i]);
  }

  // Groups elements whose result lies in the same place.
  void reduce(const Operand& result, ExpectedResult& expected) const {
    Operand places = result;
    places.sizes = result.places();
    std::map<size_t, std::vector<size_t>> groups;
    for (size_t i = 0; i < result.count(); ++i) groups[result.byte_of(i)].push_back(i);
    for (size_t place = 0; place < places.count(); ++place) {
      const std::vector<size_t>& indices = groups[places.byte_of(place)];
      const bool is_integer = scalar_kind(result.dtype) == ScalarKind::kInteger;
      if (indices.empty() && uses(contract_, {"amax", "amin"}) && is_integer) {
        expected.defined[place] = false;
      } else {
        set(result, expected, place, evaluate(result, indices).values[0]);
      }
    }
  }

  const ContractFrame& frame_;
  const KernelContract& contract_;
  mydev_dtype type_;  // of the first variable
};

std::vector<ExpectedResult> by_expression(const ContractFrame& frame) {
  const mydev_dtype type = frame.dtypes().empty() ? MYDEV_F32 : frame.dtypes().front();
  if (scalar_kind(type) == ScalarKind::kComplex) return ByExpression<std::complex<double>>(frame).results();
  const bool in_reals = scalar_kind(type) == ScalarKind::kFloat || uses(frame.contract(), {"any", "all"});
  return in_reals ? ByExpression<double>(frame).results() : ByExpression<int64_t>(frame).results();
}

// --- by the host's kernel --------------------------------------------------------------------------------------------

Expected by_reference(ContractFrame& frame, const mydev_kernel& reference) {
  std::deque<Operand> operands;
  std::vector<mydev_buffer> buffers;
  for (const Operand& operand : frame.operands()) {
    Operand& copy = operands.emplace_back(dense_copy(operand, frame.memory_of(operand)));
    buffers.push_back(copy.buffer(copy.image.data()));
  }
  mydev_frame call = make_frame(buffers, static_cast<uint32_t>(frame.num_results()), frame.attributes());
  const mydev_code code = run_record(reference, call);
  if (code != MYDEV_OK) {
    const std::string why = take_kernel_message(call).value_or(code_name(code));
    return {{}, "the host's kernel, which is the reference, refuses such operands: " + why};
  }
  forget_kernel_message(call);
  Expected expected;
  for (size_t i = 0; i < frame.num_results(); ++i) {
    Operand& result = operands[i];
    ExpectedResult& found = expected.results.emplace_back(nothing_yet(result));
    result.sizes = result.places();
    for (size_t place = 0; place < found.defined.size(); ++place) {
      std::memcpy(found.elements.data() + place * result.element_size(), result.image.data() + result.byte_of(place),
                  result.element_size());
    }
  }
  return expected;
}

// Which of equal elements mydev.topk gives is undefined: there, no index is expected.
void forget_ties(const ContractFrame& frame, ExpectedResult& indices) {
  const Operand& in = *frame.find("in", 0);
  const Operand& result = frame.operands()[1];
  const auto size = [](const Operand& operand, size_t d) { return static_cast<size_t>(operand.sizes[d]); };
  const size_t length = size(in, 1), kept = size(result, 1), inner = size(in, 2);
  const auto same = [](const Value& a, const Value& b) {
    const bool both_nan = a.number != a.number && b.number != b.number;
    return a.integer == b.integer && (both_nan || a.number == b.number);
  };
  for (size_t place = 0; place < indices.defined.size(); ++place) {
    const size_t line = place / (kept * inner) * length * inner + place % inner;
    int64_t at = 0;
    std::memcpy(&at, indices.elements.data() + place * sizeof(at), sizeof(at));
    const Value taken = in.get(line + static_cast<size_t>(at) * inner);
    size_t equal = 0;
    for (size_t j = 0; j < length; ++j) equal += same(in.get(line + j * inner), taken) ? 1 : 0;
    if (equal > 1) indices.defined[place] = false;
  }
}

}  // namespace

Expected expected_results(ContractFrame& frame, const mydev_kernel* reference) {
  const bool computes = std::all_of(frame.operands().begin(), frame.operands().end(),
                                    [](const Operand& o) { return o.absent || is_readable(o.dtype); });
  if (!frame.contract().expression.empty() && computes) return {by_expression(frame), ""};
  if (reference == nullptr) return {{}, "there is no expression, and no kernel of the host to compare with"};
  Expected expected = by_reference(frame, *reference);
  if (frame.contract().name == "mydev.topk" && expected.unknown.empty()) forget_ties(frame, expected.results[1]);
  return expected;
}

}  // namespace mydev::conform
