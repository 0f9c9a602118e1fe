// Programs as text, which people read and write, and which keeps a program in a file.
//
//   programs version 1
//
//   program layer(x: f32[128,256], donated state: f32[10]) -> (y: f32[128,10], state) {
//     constant w: f32[256,10] = hex "0000803f..."
//     temporary h: f32[128,10]
//
//     h = launch mydev.matmul(x, w; alpha=1.0, beta=0.0)
//     y = launch mydev.relu(h)
//     state = launch mydev.add(state, y+40 f32[10]; alpha=1.0)
//   }
//
// The first line has the version. Programs follow. A program calls programs before it, and the last one is the text's
// program.
//
//   program = "program" name "(" [ slot { "," slot } ] ")" "->" "(" [ result { "," result } ] ")" "{" lines "}"
//   slot    = [ "donated" ] name ":" type            result = name ":" type | a parameter's name
//   line    = "constant" name ":" type "=" bytes { "," bytes } | "temporary" name ":" type | step
//   bytes   = "hex" string
//   type    = dtype "[" [ size { "," size } ] "]"
//   step    = [ number ":" ] [ operands "=" ] command [ "lane" number ] [ "after" number { "," number } ]
//   command = "launch" kernel "(" [ operands ] [ ";" attributes ] ")" | "copy" operand | "fill" "hex" string
//           | "host" string "(" [ operands ] ")" | how name "(" [ operands ] ")"
//           | "repeat" number name "(" [ operand [ "by" bytes ] { "," operand [ "by" bytes ] } ] ")"
//           | "if" operand "then" name [ "else" name ] "(" [ operands ] ")"
//   how     = "call" | "fused" | "while" operand
//   operand = name [ "+" bytes ] [ type [ "{" strides "}" ] ] | dtype [ "[" sizes "]" ] value | "none"
//   attribute = name "=" [ dtype ] value
//   value   = true | false | integer | float | "(" float "," float ")" | string | "[" values "]" | "hex" string
//           | "{" attributes "}"
//
// A constant with several strings has bytes of its own on each of several devices. A name alone is the whole slot.
// Strides are given where a view is not dense. A dtype and a value are one number. A step has a number where others
// wait for it. A float has a point, an exponent, or is nan or inf; the empty array of floats is "[.]". "#" begins a
// comment. One line is one step; lines may not be broken.
//
// If print gave the text, print(parse(text)) gives it again, but for a comment behind calls that the device's compiler
// has compiled. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "program/ir/program.h"
#include "runtime/base/api.h"

namespace mydev::program {

inline constexpr int kTextVersion = 1;

// Prints the program with the programs that it calls. The text has only the name of a host call. So parse could not
// make the same program of it, and refuses such text.
MYDEV_API std::string print(const Program& program);
// Raises INVALID_ARGUMENT: "line 4, column 9: found 'w2', expected the name of a slot"; and what verify_structure
// finds.
MYDEV_API SharedProgram parse(std::string_view text);

// One step, without its program, for messages: "y = launch mydev.relu(h)".
MYDEV_API std::string print_step(const Program& program, const Step& step);

}  // namespace mydev::program
