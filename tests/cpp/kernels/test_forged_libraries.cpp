// Tables of nonsense: a record of a library in which a few fields hold what they never should is refused with a reason,
// or it is a kernel whose calls work or are refused with one.
#include <cmath>
#include <cstring>
#include <limits>

#include "ffi_fixture.h"
#include "fuzz.h"
#include "kernels/launch/kernel_launch.h"
#include "signature_fixture.h"

namespace mydev {
namespace {

using Random = std::mt19937;

int64_t below(Random& random, int64_t count) {
  return std::uniform_int_distribution<int64_t>(0, count - 1)(random);
}
bool chance(Random& random, int percent) {
  return below(random, 100) < percent;
}
template <typename T, size_t N>
T one_of(Random& random, const T (&values)[N]) {
  return values[below(random, N)];
}

constexpr int32_t kMost = std::numeric_limits<int32_t>::max(), kLeast = std::numeric_limits<int32_t>::min();

const char* any_name(Random& random) {
  static const std::string kLong(4000, 'x');
  const char* const names[] = {nullptr,     "",    "a",     "b",      "self",       "class",       "not a name",
                               "mydev.add", "%s%", "\xff*", "x\ny",   "forged.one", kLong.c_str(), "a\"b\\",
                               "out",       "1",   "()",    "Tensor", "None",       "__del__",     "test.op"};
  return one_of(random, names);
}

int32_t any_index(Random& random) {
  const int32_t values[] = {-1, 0, 1, 2, 3, -2, -3, 31, 32, 33, 64, kMost, kLeast};
  return one_of(random, values);
}

size_t any_size(Random& random, size_t right) {
  const size_t values[] = {0, 1, 8, right - 1, right - 8, right + 8, 1000, std::numeric_limits<size_t>::max()};
  return one_of(random, values);
}

uint64_t any_dtypes(Random& random) {
  const uint64_t values[] = {
      0, kF32, kFloats, ~uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, MYDEV_DTYPE_BIT(MYDEV_C64)};
  return one_of(random, values);
}

// A rule with a few of its characters exchanged.
std::string any_rule(Random& random, std::string rule) {
  constexpr std::string_view kCharacters = "()nmk,.@->0129 x-\n\xff";
  for (int64_t i = below(random, 4); i > 0 && !rule.empty(); --i) {
    const auto at = static_cast<size_t>(below(random, static_cast<int64_t>(rule.size())));
    const char character = kCharacters[static_cast<size_t>(below(random, kCharacters.size()))];
    switch (below(random, 3)) {
      case 0:
        rule[at] = character;
        break;
      case 1:
        rule.insert(at, 1, character);
        break;
      default:
        rule.erase(at, 1);
    }
  }
  return chance(random, 10) ? rule + "(99999999999999999999)" : rule;
}

thread_local Random* shape_random = nullptr;  // of infer_any_shapes, which is called while a round runs

mydev_code infer_any_shapes(const mydev_frame* /*frame*/, mydev_shape* results) {
  Random& random = *shape_random;
  results[0].dtype = any_index(random);
  results[0].rank = any_index(random);
  for (int64_t& size : results[0].sizes) size = int64_t{1} << below(random, 64);
  return static_cast<mydev_code>(chance(random, 80) ? 0 : below(random, 20) - 1);
}

uint64_t any_scratch(const mydev_frame* /*frame*/) {
  const uint64_t values[] = {0, 1, 64, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}};
  return one_of(*shape_random, values);
}

mydev_code any_plan(const mydev_frame* frame, mydev_plan* out) {
  out->scratch_bytes = any_scratch(frame);
  out->constants = (*shape_random)();
  return static_cast<mydev_code>(chance(*shape_random, 70) ? 0 : below(*shape_random, 20) - 1);
}

// A record that owns all its tables, sound at first.
class Forged {
 public:
  explicit Forged(Random& random) : random_(random) {
    for (int64_t i = below(random, 4); i >= 0; --i) operands_.push_back(operand(kNames[operands_.size()]));
    const bool by_rule = chance(random, 70);
    rule_ = "(n)";
    for (size_t i = 1; i < operands_.size(); ++i) rule_ += chance(random, 50) ? ",(n)" : ",(...,n)";
    rule_ += "->(n)";
    results_.push_back(result_like("out", 0));
    if (chance(random, 60)) attributes_.push_back(with_default(float_attribute("eps", 1e-5)));
    if (chance(random, 40)) attributes_.push_back(required("count", MYDEV_ATTRIBUTE_INT));
    signature_ = {sizeof(mydev_signature),
                  nullptr,
                  0,
                  0,
                  nullptr,
                  nullptr,
                  0,
                  by_rule ? rule_.c_str() : nullptr,
                  by_rule ? nullptr : infer_any_shapes};
    kernel_ = {sizeof(mydev_kernel), "forged.one", succeed, nullptr, nullptr, nullptr};
    kernel_.signature = &signature_;
    limits_ = {sizeof(mydev_limits), 0, -1, 0};
    gradient_ = {sizeof(mydev_gradient), "forged.one", indices_.data(), 1, 1, indices_.data()};
    point();
  }

  // One field.
  void forge() {
    switch (below(random_, 10)) {
      case 0:
      case 1:
        return forge_operand(operands_);
      case 2:
        return forge_operand(results_);
      case 3:
      case 4:
        return forge_attribute();
      case 5:
        return forge_tables();
      case 6:
        return forge_gradient();
      case 7:
        return forge_limits();
      default:
        return forge_record();
    }
  }

  const mydev_kernel& kernel() const { return kernel_; }
  // The functions of other kinds take other arguments.
  bool may_run() const { return kernel_.kind == MYDEV_KIND_FRAME && kernel_.entry == succeed; }
  const std::vector<mydev_attribute_spec>& attributes() const { return attributes_; }
  size_t num_operands() const { return operands_.size(); }

 private:
  static constexpr std::array<const char*, 4> kNames = {"a", "b", "c", "d"};

  void point() {
    const auto fill = [](auto& values, auto& pointers) {
      pointers.clear();
      for (auto& value : values) pointers.push_back(&value);
    };
    fill(operands_, operand_pointers_);
    fill(results_, result_pointers_);
    fill(attributes_, attribute_pointers_);
    signature_.operands = operand_pointers_.data();
    signature_.num_operands = static_cast<uint32_t>(operands_.size());
    signature_.results = result_pointers_.data();
    signature_.num_results = static_cast<uint32_t>(results_.size());
    signature_.attributes = attribute_pointers_.data();
    signature_.num_attributes = static_cast<uint32_t>(attributes_.size());
  }

  void forge_operand(std::vector<mydev_operand>& table) {
    mydev_operand& one = table[static_cast<size_t>(below(random_, static_cast<int64_t>(table.size())))];
    switch (below(random_, 8)) {
      case 0:
        one.struct_size = any_size(random_, sizeof(mydev_operand));
        break;
      case 1:
        one.name = any_name(random_);
        break;
      case 2:
        one.dtypes = any_dtypes(random_);
        break;
      case 3:
        one.like = any_index(random_);
        break;
      case 4:
        one.alias = any_index(random_);
        break;
      case 5:
        one.rank_min = any_index(random_);
        break;
      case 6:
        one.rank_max = any_index(random_);
        break;
      default:
        one.flags = chance(random_, 80) ? 1U << below(random_, 4) : static_cast<uint32_t>(random_());
    }
  }

  void forge_attribute() {
    if (attributes_.empty()) return;
    mydev_attribute_spec& one =
        attributes_[static_cast<size_t>(below(random_, static_cast<int64_t>(attributes_.size())))];
    switch (below(random_, 7)) {
      case 0:
        one.struct_size = any_size(random_, sizeof(mydev_attribute_spec));
        break;
      case 1:
        one.value.name = any_name(random_);
        break;
      case 2:  // with its value: a pointer that is none cannot be recognised
        one.value.kind = static_cast<uint16_t>(below(random_, 11));
        one.value.count = 0;
        std::memset(&one.value.value, 0, sizeof(one.value.value));
        break;
      case 3:
        one.value.dtype = static_cast<uint16_t>(random_());
        break;
      case 4:
        if (one.value.kind < MYDEV_ATTRIBUTE_STRING) one.value.value.i = static_cast<int64_t>(random_()) << 32;
        break;
      case 5:
        one.flags = static_cast<uint32_t>(below(random_, 4));
        break;
      default:  // of a pointer that is NULL
        one.value.kind = static_cast<uint16_t>(MYDEV_ATTRIBUTE_STRING + below(random_, 5));
        one.value.value.data = nullptr;
        one.value.count = static_cast<uint32_t>(random_());
    }
  }

  void forge_tables() {
    switch (below(random_, 8)) {
      case 0:
        signature_.struct_size = any_size(random_, sizeof(mydev_signature));
        break;
      case 1:
        signature_.operands = nullptr;
        break;
      case 2:
        signature_.results = nullptr;
        break;
      case 3:
        signature_.attributes = nullptr, signature_.num_attributes = static_cast<uint32_t>(random_());
        break;
      case 4:
        signature_.num_operands = 0;
        break;
      case 5:
        operand_pointers_[0] = nullptr;
        break;
      case 6:
        result_pointers_[0] = nullptr;
        break;
      default:
        rule_ = any_rule(random_, rule_), signature_.shapes = rule_.c_str();
    }
  }

  void forge_gradient() {
    kernel_.gradient = &gradient_;
    for (int32_t& index : indices_) index = any_index(random_);
    switch (below(random_, 6)) {
      case 0:
        gradient_.struct_size = any_size(random_, sizeof(mydev_gradient));
        break;
      case 1:
        gradient_.kernel = any_name(random_);
        break;
      case 2:
        gradient_.saved = nullptr;
        break;
      case 3:
        gradient_.wrt = nullptr;
        break;
      case 4:
        gradient_.num_saved = static_cast<uint32_t>(below(random_, 4));
        break;
      default:
        gradient_.num_wrt = static_cast<uint32_t>(below(random_, 4));
    }
  }

  void forge_limits() {
    kernel_.limits = &limits_;
    switch (below(random_, 4)) {
      case 0:
        limits_.struct_size = any_size(random_, sizeof(mydev_limits));
        break;
      case 1:
        limits_.dtypes = any_dtypes(random_);
        break;
      case 2:
        limits_.rank_max = any_index(random_);
        break;
      default:
        limits_.flags = static_cast<uint32_t>(random_());
    }
  }

  void forge_record() {
    switch (below(random_, 12)) {
      case 0:
        kernel_.struct_size = any_size(random_, sizeof(mydev_kernel));
        break;
      case 1:
        kernel_.name = any_name(random_);
        break;
      case 2:
        kernel_.entry = nullptr;
        break;
      case 3:
        kernel_.scratch_bytes = any_scratch;
        break;
      case 4:
        kernel_.kind = any_index(random_);
        break;
      case 5:
        kernel_.traits = static_cast<uint32_t>(below(random_, 9));
        break;
      case 6:
        kernel_.execute = reinterpret_cast<mydev_function>(succeed);
        break;
      case 7:
        kernel_.signature = nullptr;
        break;
      case 8:
        kernel_.batching = any_index(random_);
        break;
      case 9:
        kernel_.runs = any_index(random_);
        break;
      case 10:
        kernel_.platform = any_name(random_);
        break;
      default:
        kernel_.plan = any_plan;
    }
  }

  Random& random_;
  std::vector<mydev_operand> operands_, results_;
  std::vector<mydev_attribute_spec> attributes_;
  std::vector<const mydev_operand*> operand_pointers_, result_pointers_;
  std::vector<const mydev_attribute_spec*> attribute_pointers_;
  std::string rule_;
  std::array<int32_t, 4> indices_{};
  mydev_signature signature_{};
  mydev_gradient gradient_{};
  mydev_limits limits_{};
  mydev_kernel kernel_{};
};

// Any operands; those of the right number more often than others.
mydev_frame any_frame(Random& random, const Forged& forged, const std::vector<DeviceArray*>& arrays,
                      std::vector<mydev_buffer>& buffers, std::vector<mydev_attribute>& attributes) {
  const auto inputs = static_cast<size_t>(chance(random, 80) ? forged.num_operands() : below(random, 5));
  for (size_t i = 0; i < inputs; ++i) {
    const size_t chosen =
        chance(random, 70) ? 0 : static_cast<size_t>(below(random, static_cast<int64_t>(arrays.size())));
    mydev_buffer buffer = arrays[chosen]->buffer();
    if (chance(random, 10)) buffer.dtype = MYDEV_S32;
    buffers.push_back(buffer);
  }
  for (const mydev_attribute_spec& spec : forged.attributes()) {
    attributes.push_back(chance(random, 90) ? spec.value : int_attribute("other", 1));
    if (attributes.back().kind >= MYDEV_ATTRIBUTE_STRING) attributes.back().count = 0;
  }
  return make_frame(buffers, 0, attributes);
}

struct Outcomes {
  unsigned refused = 0, called = 0, refused_calls = 0;
};

void ask(Random& random, const Forged& forged, const std::vector<DeviceArray*>& arrays, Outcomes& outcomes) {
  const mydev_kernel* kernel = nullptr;
  const Error refusal = error_of([&] { kernel = register_kernel(forged.kernel(), {"", "forged"}); });
  if (kernel == nullptr) {
    ++outcomes.refused;
    EXPECT_TRUE(refusal.code() == MYDEV_INVALID_ARGUMENT || refusal.code() == MYDEV_ALREADY_EXISTS) << refusal.what();
    EXPECT_GT(std::strlen(refusal.what()), 20U) << refusal.what();
    return;
  }
  std::vector<mydev_buffer> buffers;
  std::vector<mydev_attribute> attributes;
  const mydev_frame frame = any_frame(random, forged, arrays, buffers, attributes);
  const Error problem = error_of([&] {
    if (const CompiledSignature* signature = compiled_signature(*kernel); signature != nullptr) {
      EXPECT_FALSE(operator_schema(*kernel).empty());
      EXPECT_FALSE(describe_signature(*kernel).empty());
      check_operands(*kernel, frame);
      std::vector<mydev_shape> shapes(num_outputs(*signature, frame.num_inputs));
      infer_results(*kernel, frame, shapes);
      for (const mydev_shape& shape : shapes) {
        ASSERT_TRUE(shape.rank >= 0 && shape.rank <= MYDEV_MAX_SHAPE_RANK);
        ASSERT_GT(dtype_size(static_cast<mydev_dtype>(shape.dtype)), 0);
        for (int32_t d = 0; d < shape.rank; ++d) ASSERT_GE(shape.sizes[d], 0);
      }
    }
    const Launchable* resolved = forged.may_run() ? resolve_kernel(device(0), kernel->name) : nullptr;
    if (resolved == nullptr) return;
    mydev_frame launched = frame;
    try {
      launch_kernel(*resolved, launched, default_stream(0));
    } catch (const KernelDeclined& declined) {
      EXPECT_GT(std::strlen(declined.what()), 10U);
    }
  });
  ++(problem.code() == MYDEV_OK ? outcomes.called : outcomes.refused_calls);
  EXPECT_GE(std::strlen(problem.what()), problem.code() == MYDEV_OK ? 0U : 10U);
  error_of([] { default_stream(0).synchronize(); });
  unregister_kernel(kernel->name);
}

TEST(ForgedRecords, AreRefusedOrBehave) {
  DeviceArray one({4}), two({2, 4}), none({0, 4}), number({});
  const std::vector<DeviceArray*> arrays = {&one, &two, &none, &number};
  Outcomes outcomes;
  fuzz(20000, 7, [&](Random& random) {
    shape_random = &random;
    Forged forged(random);
    for (int64_t i = below(random, 3); i > 0; --i) forged.forge();
    ask(random, forged, arrays, outcomes);
    ASSERT_FALSE(testing::Test::HasFailure());
  });
  RecordProperty("refused", static_cast<int>(outcomes.refused));
  EXPECT_GT(outcomes.refused, outcomes.called / 20) << "forged records are refused";
  EXPECT_GT(outcomes.called, outcomes.refused / 20) << "sound ones work";
  EXPECT_GT(outcomes.refused_calls, outcomes.called / 20);
}

}  // namespace
}  // namespace mydev
