#include "stablehlo/text/attribute_reader.h"
#include "stablehlo/text/operation_reader.h"
#include "stablehlo/text/scanner.h"
#include "stablehlo/text/text.h"

namespace mydev::stablehlo {

namespace {

class TextReader {
 public:
  TextReader(std::string_view text, Module::Contents& contents)
      : scanner_(text), attributes_(scanner_, contents), contents_(contents) {}

  void read() {
    // Functions may also stand alone.
    const bool is_module = scanner_.take_word("module");
    if (is_module) {
      if (scanner_.peek() == '@') contents_.name = scanner_.symbol();
      if (scanner_.take_word("attributes")) {
        scanner_.expect("{");
        contents_.attributes = attributes_.dictionary();
      }
      scanner_.expect("{");
    }
    while (scanner_.peek() != (is_module ? '}' : '\0')) {
      if (!scanner_.take_word("func.func") && !scanner_.take_word("func")) scanner_.fail("a function");
      read_function();
    }
    if (is_module) scanner_.expect("}");
    if (scanner_.peek() != '\0') scanner_.fail("the end of the text");
  }

 private:
  void read_function() {
    Function& function = contents_.functions.emplace_back();
    for (const char* visibility : {"public", "private"}) {
      if (scanner_.take_word(visibility)) function.visibility = visibility;
    }
    function.name = scanner_.symbol();
    contents_.function_order.push_back(&function);
    if (!contents_.functions_by_name.emplace(function.name, &function).second) {
      scanner_.fail_about("there are two functions called '" + function.name + "'");
    }
    TextOperationReader body(scanner_, attributes_, contents_, function);
    read_arguments(function, body);
    if (scanner_.take("->")) read_results(function);
    if (scanner_.take_word("attributes")) {
      scanner_.expect("{");
      function.attributes = attributes_.dictionary();
    }
    scanner_.expect("{");
    function.body = body.read_body();
  }

  void read_arguments(Function& function, TextOperationReader& body) {
    scanner_.expect("(");
    if (scanner_.take(")")) return;
    do {
      const std::string name(scanner_.value_name());
      scanner_.expect(":");
      Value* value = body.define(name, attributes_.type());
      value->index = static_cast<uint32_t>(function.arguments.size());
      function.arguments.push_back({value, read_dictionary()});
    } while (scanner_.take(","));
    scanner_.expect(")");
  }

  void read_results(Function& function) {
    if (!scanner_.take("(")) {
      function.results.push_back({attributes_.type(), {}});
      return;
    }
    if (scanner_.take(")")) return;
    do {
      const Type* type = attributes_.type();
      function.results.push_back({type, read_dictionary()});
    } while (scanner_.take(","));
    scanner_.expect(")");
  }

  Dictionary read_dictionary() { return scanner_.take("{") ? attributes_.dictionary() : Dictionary(); }

  ModuleScanner scanner_;
  TextAttributeReader attributes_;
  Module::Contents& contents_;
};

}  // namespace

Module read_text(std::string_view text) {
  Module module;
  TextReader(text, module.contents()).read();
  return module;
}

}  // namespace mydev::stablehlo
