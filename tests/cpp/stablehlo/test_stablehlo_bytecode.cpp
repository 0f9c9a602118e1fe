// The reader of StableHLO's bytecode: the programs that it reads, and its errors for the others. tests/pjrt compares it
// with JAX's own reader on programs that JAX writes.
#include <gtest/gtest.h>

#include <functional>

#include "bytecode_writer.h"
#include "fuzz.h"
#include "runtime/base/status.h"
#include "stablehlo/bytecode/cursor.h"
#include "stablehlo/bytecode/reader.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

namespace mydev::stablehlo {
namespace {

// Returns the message of the error that `body` raises; "" if it raises none.
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "";
}

std::string error_of(const Bytes& program) {
  return error_of([&] { read_bytecode(program.data); });
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

// Reads it, verifies it and prints it, or raises an Error; anything else is a failure of the test.
void survive(std::span<const std::byte> program) {
  try {
    const Module module = read_bytecode(program);
    verify(module);
    print(module);
    for (const Function* function : module.functions()) {
      for (const Operation* op : function->body->body().operations) op->describe();
    }
  } catch (const Error&) {
    return;
  }
}

// A program whose constant has a literal of this type and these bytes.
Bytes constant_program(uint64_t element_code, const std::vector<int64_t>& sizes, const std::vector<unsigned>& bytes) {
  AdditionProgram parts;
  const uint64_t type = parts.writer.tensor_type(sizes, parts.writer.element_type(element_code));
  Bytes literal = varints({15, type});
  const uint64_t value = parts.writer.attribute(BytecodeWriter::kVhlo, literal.blob(bytes));
  const uint64_t constant = parts.writer.operator_name(BytecodeWriter::kVhlo, "constant_v1");
  const uint64_t end = parts.writer.operator_name(BytecodeWriter::kVhlo, "return_v1");
  const uint64_t properties = parts.writer.properties(varints({value}));
  Bytes body = varints({1, 2});
  body.varint(2 << 1 | 1).varint(1).varint(parts.tensor << 1).byte(0);
  body.varint(constant).byte(AdditionProgram::kResults | AdditionProgram::kProperties).varint(parts.location);
  body.varint(properties).varint(1).varint(type);
  body.varint(end).byte(AdditionProgram::kOperands).varint(parts.location).varint(1).varint(0);
  return parts.module(body);
}

TensorLiteral literal_of(const Module& module) {
  return module.main().body->body().operations.front()->literal("value");
}

// --- primitives ---

class VarintTest : public testing::TestWithParam<uint64_t> {};

TEST_P(VarintTest, ReadsWhatWasWritten) {
  const Bytes bytes = varints({GetParam()});
  Cursor cursor(bytes.data, 0);
  EXPECT_EQ(cursor.varint(), GetParam());
  EXPECT_TRUE(cursor.at_end());
}

INSTANTIATE_TEST_SUITE_P(Sizes, VarintTest,
                         testing::Values(0, 1, 127, 128, 16383, 16384, (uint64_t{1} << 35) - 1, uint64_t{1} << 35,
                                         (uint64_t{1} << 56) - 1, uint64_t{1} << 56, ~uint64_t{0}));

TEST(BytecodeCursor, ReadsSignedNumbers) {
  Bytes bytes;
  bytes.signed_varint(-1).signed_varint(INT64_MIN).signed_varint(INT64_MAX);
  Cursor cursor(bytes.data, 0);
  EXPECT_EQ(cursor.signed_varint(), -1);
  EXPECT_EQ(cursor.signed_varint(), INT64_MIN);
  EXPECT_EQ(cursor.signed_varint(), INT64_MAX);
}

TEST(BytecodeCursor, RefusesCountsThatCannotFit) {
  const Bytes bytes = varints({1000, 1, 2});
  Cursor cursor(bytes.data, 0x20);
  EXPECT_HAS(error_of([&] { cursor.count("strings"); }), "offset 0x20: 1000 strings do not fit into the 2 bytes");
}

TEST(BytecodeCursor, NamesTheOffsetWhereBytesEnd) {
  const Bytes bytes = varints({7});
  Cursor cursor(bytes.data, 0x10);
  cursor.varint();
  EXPECT_HAS(error_of([&] { cursor.byte(); }), "offset 0x11: expected 1 more bytes, and 0 are left");
}

// --- programs ---

TEST(Bytecode, ReadsAnAddition) {
  const Module module = read_bytecode(AdditionProgram().program().data);
  verify(module);
  EXPECT_EQ(module.name(), "addition");
  EXPECT_EQ(module.version(), "1.13.0");
  const Operation& op = *module.main().body->body().operations.front();
  EXPECT_EQ(op.op, Operator::kAdd);
  EXPECT_EQ(op.operand(0).type->text(), "tensor<4xf32>");
  EXPECT_EQ(&op.operand(0), module.main().arguments[0].value);
  EXPECT_EQ(module.main().body->results()[0], &op.result());
}

TEST(Bytecode, KeepsItsBytesWhenTheModuleMoves) {
  Module module = [] {
    Bytes program = AdditionProgram().program();
    return read_bytecode(program.data);
  }();
  const Module moved = std::move(module);
  EXPECT_HAS(moved.main().body->body().operations.front()->describe(), "\"model.py\":12:3");
}

TEST(Bytecode, DescribesOperationsByFunctionAndLocation) {
  const Module module = read_bytecode(AdditionProgram().program().data);
  EXPECT_EQ(module.main().body->body().operations.front()->describe(),
            "stablehlo.add (operation 0 of function 'main', at \"model.py\":12:3)");
}

TEST(Bytecode, DescribesOperationsWithoutLocation) {
  AdditionProgram parts;
  parts.location = parts.writer.unknown_location();
  const Module module = read_bytecode(parts.program().data);
  EXPECT_EQ(module.main().body->body().operations.front()->describe(),
            "stablehlo.add (operation 0 of function 'main')");
}

TEST(Bytecode, DescribesNamedAndCalledLocations) {
  AdditionProgram parts;
  const uint64_t name = parts.writer.builtin_string("jit(f)/add");
  const uint64_t named = parts.writer.attribute(BytecodeWriter::kBuiltin, varints({14, name, parts.location}));
  const uint64_t caller = parts.writer.file_location("main.py", 1, 1);
  parts.location = parts.writer.attribute(BytecodeWriter::kBuiltin, varints({10, named, caller}));
  const Module module = read_bytecode(parts.program().data);
  EXPECT_HAS(module.main().body->body().operations.front()->describe(),
             R"("jit(f)/add"("model.py":12:3) called at "main.py":1:1)");
}

TEST(Bytecode, SurvivesLocationsOfThemselves) {
  AdditionProgram parts;
  const uint64_t name = parts.writer.builtin_string("again");
  parts.location = name + 1;
  parts.writer.attribute(BytecodeWriter::kBuiltin, varints({14, name, name + 1}));
  const Module module = read_bytecode(parts.program().data);
  EXPECT_HAS(module.main().body->body().operations.front()->describe(), "\"again\"");
}

// --- refusals ---

TEST(BytecodeRefusal, OtherFormats) {
  EXPECT_HAS(error_of(Bytes().byte('h').byte('l').byte('o').byte('!')), "INVALID_ARGUMENT: StableHLO bytecode");
}

TEST(BytecodeRefusal, OtherVersionsOfTheContainer) {
  AdditionProgram parts;
  parts.writer.version = 1;
  EXPECT_HAS(error_of(parts.program()), "UNIMPLEMENTED: the program is MLIR bytecode of version 1");
}

TEST(BytecodeRefusal, OperatorsThatAreNewer) {
  AdditionProgram parts;
  parts.operator_name = "add_v2";
  EXPECT_HAS(error_of(parts.program()), "UNIMPLEMENTED: vhlo.add_v2 (at \"model.py\":12:3) is no operator");
}

TEST(BytecodeRefusal, OperatorsThatThereAreNot) {
  AdditionProgram parts;
  parts.operator_name = "frobnicate_v1";
  EXPECT_HAS(error_of(parts.program()), "vhlo.frobnicate_v1 (at \"model.py\":12:3) is no operator of StableHLO 1.13");
}

TEST(BytecodeRefusal, ValuesBeforeTheirDefinition) {
  AdditionProgram parts;
  parts.operands = {0, 1};
  EXPECT_HAS(error_of(parts.program()), "value 1 is used before it is defined");
}

TEST(BytecodeRefusal, MoreValuesThanAnnounced) {
  AdditionProgram parts;
  parts.values = 1;
  EXPECT_HAS(error_of(parts.program()), "more values than it announced");
}

TEST(BytecodeRefusal, RegionsThatAreNestedTooDeep) {
  // Each operation's only region begins with the next one.
  AdditionProgram parts;
  parts.operator_name = "while_v1";
  const uint64_t op = parts.writer.operator_name(BytecodeWriter::kVhlo, "while_v1");
  Bytes inner;
  for (int depth = 0; depth < 200; ++depth) {
    inner.varint(1 << 1).varint(1).varint(0).varint(1 << 1);
    inner.varint(op).byte(AdditionProgram::kRegions).varint(parts.location);
  }
  parts.more_parts = AdditionProgram::kRegions;
  parts.more_of_operator = inner;
  EXPECT_HAS(error_of(parts.program()), "regions are nested in each other more than 100 deep");
}

TEST(BytecodeRefusal, TypesOfThemselves) {
  AdditionProgram parts;
  parts.tensor = parts.tensor + 1;
  parts.writer.type(BytecodeWriter::kVhlo, varints({23, 1, parts.tensor}));
  EXPECT_HAS(error_of(parts.program()), "attributes and types are nested in each other more than 100 deep");
}

TEST(BytecodeRefusal, TypesThatAreLargeWhenWrittenOut) {
  // Each tuple has the one before it twice.
  AdditionProgram parts;
  for (int i = 0; i < 60; ++i) {
    parts.tensor = parts.writer.type(BytecodeWriter::kVhlo, varints({23, 2, parts.tensor, parts.tensor}));
  }
  EXPECT_HAS(error_of(parts.program()), "has more than 1048576 parts");
}

TEST(BytecodeRefusal, TensorsThatAreLargerThanMemory) {
  AdditionProgram parts;
  parts.tensor = parts.writer.tensor_type({int64_t{1} << 40, int64_t{1} << 40}, parts.f32);
  EXPECT_HAS(error_of(parts.program()), "are negative, or more than there can be");
}

TEST(BytecodeRefusal, NegativeSizes) {
  AdditionProgram parts;
  parts.tensor = parts.writer.tensor_type({-4}, parts.f32);
  EXPECT_HAS(error_of(parts.program()), "the sizes of tensor<-4xf32> are negative");
}

TEST(BytecodeRefusal, QuantizedTypes) {
  AdditionProgram parts;
  parts.tensor = parts.writer.element_type(24);
  EXPECT_HAS(error_of(parts.program()), "UNIMPLEMENTED: quantized types are not read");
}

TEST(BytecodeRefusal, TypesThatAreNewer) {
  AdditionProgram parts;
  parts.tensor = parts.writer.element_type(42);
  EXPECT_HAS(error_of(parts.program()), "type 42 of VHLO is none of StableHLO 1.13");
}

TEST(BytecodeRefusal, EntriesWithBytesLeftOver) {
  AdditionProgram parts;
  parts.f32 = parts.writer.type(BytecodeWriter::kVhlo, varints({4, 1}));
  parts.tensor = parts.writer.tensor_type({4}, parts.f32);
  EXPECT_HAS(error_of(parts.program()), "a type ends here, and 1 bytes more were announced");
}

TEST(BytecodeRefusal, LiteralsOfTheWrongSize) {
  EXPECT_HAS(error_of(constant_program(13, {3}, {1, 2, 3, 4, 5, 6, 7, 8})),
             "a literal of the type tensor<3xi32> has 8 bytes, expected 12");
}

// --- literals ---

TEST(BytecodeLiteral, OfNumbers) {
  const Module module = read_bytecode(constant_program(12, {2}, {0xFF, 0xFF, 0x01, 0x02}).data);
  EXPECT_EQ(integers_of(literal_of(module)), (std::vector<int64_t>{-1, 513}));
}

TEST(BytecodeLiteral, OfOneNumberForAll) {
  const Module module = read_bytecode(constant_program(13, {2, 2}, {5, 0, 0, 0}).data);
  EXPECT_TRUE(literal_of(module).is_splat);
  EXPECT_EQ(integers_of(literal_of(module)), (std::vector<int64_t>{5, 5, 5, 5}));
}

TEST(BytecodeLiteral, OfPackedBits) {
  const Module module = read_bytecode(constant_program(0, {10}, {0x05, 0x02}).data);
  EXPECT_FALSE(literal_of(module).is_splat);
  EXPECT_EQ(integers_of(literal_of(module)), (std::vector<int64_t>{1, 0, 1, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(BytecodeLiteral, OfOneBitForAll) {
  const Module module = read_bytecode(constant_program(0, {10}, {0xFF}).data);
  EXPECT_TRUE(literal_of(module).is_splat);
  EXPECT_EQ(integers_of(literal_of(module)), std::vector<int64_t>(10, 1));
}

TEST(BytecodeLiteral, OfFourBits) {
  const Module module = read_bytecode(constant_program(10, {2}, {0x0E, 0x07}).data);
  EXPECT_EQ(integers_of(literal_of(module)), (std::vector<int64_t>{-2, 7}));
}

TEST(BytecodeLiteral, OfHalfPrecision) {
  const Module module = read_bytecode(constant_program(3, {3}, {0x00, 0x3C, 0x01, 0x00, 0x00, 0xFC}).data);
  EXPECT_EQ(floats_of(literal_of(module)),
            (std::vector<double>{1, 5.9604644775390625e-08, -std::numeric_limits<double>::infinity()}));
}

TEST(BytecodeLiteral, OfNothing) {
  const Module module = read_bytecode(constant_program(4, {0, 3}, {}).data);
  EXPECT_TRUE(floats_of(literal_of(module)).empty());
}

// --- anything ---

TEST(BytecodeFuzz, EachTruncationRaises) {
  const Bytes program = AdditionProgram().program();
  for (size_t size = 0; size < program.data.size(); ++size) {
    EXPECT_THROW(read_bytecode(std::span(program.data).first(size)), Error) << size << " bytes";
  }
}

TEST(BytecodeFuzz, SurvivesEachByteBeingAnother) {
  for (const Bytes& program : {AdditionProgram().program(), constant_program(0, {10}, {0x05, 0x02})}) {
    for (size_t place = 0; place < program.data.size(); ++place) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes changed = program;
        changed.data[place] = static_cast<std::byte>(value);
        survive(changed.data);
      }
    }
  }
}

TEST(BytecodeFuzz, SurvivesManyChanges) {
  const Bytes program = AdditionProgram().program();
  fuzz(20000, 11, [&](std::mt19937& random) {
    std::vector<std::byte> changed = program.data;
    const unsigned changes = 1 + random() % 8;
    for (unsigned i = 0; i < changes; ++i) {
      const size_t place = random() % changed.size();
      const auto at = changed.begin() + static_cast<std::ptrdiff_t>(place);
      switch (random() % 3) {
        case 0:
          *at = static_cast<std::byte>(random());
          break;
        case 1:
          changed.erase(at);
          break;
        default:
          changed.insert(at, static_cast<std::byte>(random()));
      }
    }
    survive(changed);
  });
}

}  // namespace
}  // namespace mydev::stablehlo
