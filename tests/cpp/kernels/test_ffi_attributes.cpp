// Attributes of typed-FFI kernels: order, widths, nesting, and what is refused.
#include <array>
#include <cstring>

#include "ffi_handlers.h"
#include "fuzz.h"
#include "kernels/ffi/ffi_attributes.h"
#include "runtime/driver/host_services.h"

namespace mydev {
namespace {

template <typename T>
T scalar(const ffi::Attributes& attributes, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const ffi::Scalar*>(attributes.values[index])->value, sizeof(T));
  return value;
}
int32_t scalar_dtype(const ffi::Attributes& attributes, size_t index) {
  return static_cast<const ffi::Scalar*>(attributes.values[index])->dtype;
}
std::string name_of(const ffi::Attributes& attributes, size_t index) {
  return {attributes.names[index]->data, attributes.names[index]->size};
}

TEST(Attributes, AreSortedByName) {
  const std::vector<mydev_attribute> given = {int_attribute("zeta", 1), int_attribute("alpha", 2),
                                              int_attribute("alp", 3)};
  const ffi::AttributeTable table(given);
  ASSERT_EQ(table.table().size, 3);
  EXPECT_EQ(name_of(table.table(), 0), "alp");
  EXPECT_EQ(name_of(table.table(), 1), "alpha");
  EXPECT_EQ(name_of(table.table(), 2), "zeta");
  EXPECT_EQ(scalar<int64_t>(table.table(), 2), 1);
}

TEST(Attributes, HaveTheirDefaultWidths) {
  const std::vector<mydev_attribute> given = {bool_attribute("a", true), int_attribute("b", -2),
                                              float_attribute("c", 0.5), complex_attribute("d", 1, 2)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar_dtype(table.table(), 0), MYDEV_PRED);
  EXPECT_EQ(scalar<uint8_t>(table.table(), 0), 1);
  EXPECT_EQ(scalar_dtype(table.table(), 1), MYDEV_S64);
  EXPECT_EQ(scalar<int64_t>(table.table(), 1), -2);
  EXPECT_EQ(scalar_dtype(table.table(), 2), MYDEV_F64);
  EXPECT_EQ(scalar<double>(table.table(), 2), 0.5);
  EXPECT_EQ(scalar_dtype(table.table(), 3), MYDEV_C128);
  EXPECT_EQ((scalar<std::array<double, 2>>(table.table(), 3)), (std::array<double, 2>{1, 2}));
}

struct Width {
  mydev_dtype dtype;
  int64_t fits, too_large;
};
class IntegerWidths : public testing::TestWithParam<Width> {};
INSTANTIATE_TEST_SUITE_P(Attributes, IntegerWidths,
                         testing::Values(Width{MYDEV_S8, -128, 128}, Width{MYDEV_S16, -32768, 32768},
                                         Width{MYDEV_S32, INT32_MIN, int64_t{1} << 31}, Width{MYDEV_U8, 255, -1},
                                         Width{MYDEV_U16, 65535, 65536},
                                         Width{MYDEV_U32, 0xFFFFFFFF, int64_t{1} << 32}),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

TEST_P(IntegerWidths, AreKeptAndChecked) {
  const std::vector<mydev_attribute> given = {typed(int_attribute("n", GetParam().fits), GetParam().dtype)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar_dtype(table.table(), 0), GetParam().dtype);
  int64_t bits = 0;
  const auto bytes = static_cast<size_t>(dtype_size(GetParam().dtype));
  std::memcpy(&bits, static_cast<const ffi::Scalar*>(table.table().values[0])->value, bytes);
  EXPECT_EQ(bits, GetParam().fits & ((int64_t{1} << (8 * bytes)) - 1));
  const std::vector<mydev_attribute> bad = {typed(int_attribute("n", GetParam().too_large), GetParam().dtype)};
  expect_error(error_of([&] { ffi::AttributeTable refused(bad); }), MYDEV_INVALID_ARGUMENT,
               "its value is " + std::to_string(GetParam().too_large));
}

struct Rounding {
  double value;
  uint16_t f16, bf16;
};
class SixteenBits : public testing::TestWithParam<Rounding> {};
INSTANTIATE_TEST_SUITE_P(Attributes, SixteenBits,
                         testing::Values(Rounding{0.0, 0x0000, 0x0000}, Rounding{-0.0, 0x8000, 0x8000},
                                         Rounding{1.0, 0x3C00, 0x3F80}, Rounding{-2.5, 0xC100, 0xC020},
                                         Rounding{65504, 0x7BFF, 0x4780}, Rounding{65520, 0x7C00, 0x4780},
                                         Rounding{6e-8, 0x0001, 0x3381}, Rounding{1e-50, 0x0000, 0x0000},
                                         Rounding{1e300, 0x7C00, 0x7F80}, Rounding{1.0 / 3, 0x3555, 0x3EAB},
                                         Rounding{2049, 0x6800, 0x4500}, Rounding{2051, 0x6802, 0x4500}));

TEST_P(SixteenBits, RoundToEven) {
  const std::vector<mydev_attribute> given = {typed(float_attribute("b", GetParam().value), MYDEV_BF16),
                                              typed(float_attribute("h", GetParam().value), MYDEV_F16)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar<uint16_t>(table.table(), 0), GetParam().bf16);
  EXPECT_EQ(scalar<uint16_t>(table.table(), 1), GetParam().f16);
}

TEST(Attributes, StringsArraysAndDictionariesAreBorrowed) {
  const std::string text("a\0b", 3);
  const int64_t ints[] = {1, 2};
  const float floats[] = {0.5F};
  mydev_attribute array{"c", MYDEV_ATTRIBUTE_ARRAY, MYDEV_F32, 1, {}};
  array.value.data = floats;
  const std::vector<mydev_attribute> inner = {int_attribute("y", 1), bool_attribute("x", true)};
  mydev_attribute dictionary{"d", MYDEV_ATTRIBUTE_DICTIONARY, 0, 2, {}};
  dictionary.value.attributes = inner.data();
  const std::vector<mydev_attribute> given = {string_attribute("a", text), int_array_attribute("b", ints), array,
                                              dictionary};
  const ffi::AttributeTable table(given);
  const ffi::Attributes& attributes = table.table();
  EXPECT_EQ((std::vector<int32_t>(attributes.types, attributes.types + 4)),
            (std::vector<int32_t>{ffi::kString, ffi::kArray, ffi::kArray, ffi::kDictionary}));
  const auto* string = static_cast<const ffi::ByteSpan*>(attributes.values[0]);
  EXPECT_EQ(std::string(string->data, string->size), text);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[1])->dtype, MYDEV_S64);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[1])->data, ints);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[2])->dtype, MYDEV_F32);
  const auto* nested = static_cast<const ffi::Attributes*>(attributes.values[3]);
  EXPECT_EQ(name_of(*nested, 0), "x");
}

TEST(Attributes, OfOneNameAreRefused) {
  const std::vector<mydev_attribute> given = {int_attribute("n", 1), int_attribute("n", 2)};
  expect_error(error_of([&] { ffi::AttributeTable table(given); }), MYDEV_INVALID_ARGUMENT, "two attributes 'n'");
}

TEST(Attributes, NestedTooDeeplyAreRefused) {
  std::vector<mydev_attribute> levels(20, {"d", MYDEV_ATTRIBUTE_DICTIONARY, 0, 1, {}});
  for (size_t i = 0; i + 1 < levels.size(); ++i) levels[i].value.attributes = &levels[i + 1];
  levels.back() = int_attribute("n", 1);
  const ScopedKernel kernel(ffi_record("test.deep", succeed));
  expect_error(error_of([&] { run_kernel(*kernel, {}, 0, {levels[0]}); }), MYDEV_INVALID_ARGUMENT, "8 deep");
}

TEST(Attributes, ReachTheHandler) {
  const ScopedKernel kernel(ffi_record("test.scale", handler([](CallFrame* frame) -> ffi::Error* {
                                         if (frame->attributes.size != 1) return fail(frame, 3, "count");
                                         static_cast<float*>(result(frame, 0).data)[0] =
                                             scalar<float>(frame->attributes, 0);
                                         return nullptr;
                                       })));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1, {typed(float_attribute("factor", 2.5), MYDEV_F32)});
  EXPECT_EQ(out.values(), (std::vector<float>{2.5}));
  run_kernel(*kernel, {out.buffer()}, 1, {typed(float_attribute("factor", 3.5), MYDEV_F32)});
  EXPECT_EQ(out.values(), (std::vector<float>{3.5}));
}

// Whatever the frame's attributes, the call ends with success or INVALID_ARGUMENT.
TEST(Attributes, OfAnyShapeAreSurvived) {
  const ScopedKernel kernel(ffi_record("test.any", succeed));
  const char* const names[] = {"a", "b", "c", "dd", ""};
  const int64_t data[4] = {1, -1, 300, INT64_MIN};
  int accepted = 0;
  fuzz(5000, 20240613, [&](std::mt19937& random) {
    std::vector<mydev_attribute> inner(random() % 3), given(random() % 5);
    const auto make = [&](mydev_attribute& attribute, bool nested) {
      attribute.name = random() % 40 == 0 ? nullptr : names[random() % 5];
      attribute.kind = static_cast<uint16_t>(random() % (nested ? 8 : 11));
      attribute.dtype = static_cast<uint16_t>(random() % 3 == 0 ? random() % 24 : 0);
      attribute.count = 0;
      if (attribute.kind >= MYDEV_ATTRIBUTE_STRING) {
        attribute.count = static_cast<uint32_t>(random() % 2);
        attribute.value.data = random() % 20 == 0 ? nullptr : data;
      } else {
        attribute.value.c[0] = attribute.value.c[1] = 1;
        if (random() % 2 == 0) attribute.value.i = data[random() % 4];
      }
      if (attribute.kind == MYDEV_ATTRIBUTE_DICTIONARY) {
        attribute.count = static_cast<uint32_t>(inner.size());
        attribute.value.attributes = inner.data();
      }
    };
    for (mydev_attribute& attribute : inner) make(attribute, true);
    for (mydev_attribute& attribute : given) make(attribute, false);
    mydev_frame frame = make_frame({}, 0, given);
    frame.kernel = &*kernel;
    frame.host = &host_services();
    const mydev_code code = (*kernel).entry(&frame);
    ASSERT_TRUE(code == MYDEV_OK || code == MYDEV_INVALID_ARGUMENT) << code;
    accepted += code == MYDEV_OK ? 1 : 0;
  });
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace mydev
