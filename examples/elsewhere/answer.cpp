// Answers a question of `xbench ask` with OpenVINO from C++, for networks with one axis of free size:
//   W=$(python -c "import openvino; print(openvino.__path__[0])")
//   g++ -std=c++17 answer.cpp -I$W/include -L$W/libs -l:$(basename $W/libs/libopenvino.so*) -Wl,-rpath,$W/libs -o answer
//   ./answer QUESTION ANSWERS
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <openvino/openvino.hpp>
#include <string>
#include <vector>

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "answer QUESTION ANSWERS\n";
    return 2;
  }
  const fs::path question = argv[1], answers = argv[2];
  auto network = ov::Core().compile_model((question / "model.onnx").string(), "CPU",
                                          ov::hint::inference_precision(ov::element::f32));
  for (int set = 0; fs::exists(question / ("test_data_set_" + std::to_string(set))); ++set) {
    const auto place = "test_data_set_" + std::to_string(set);
    auto request = network.create_infer_request();
    for (size_t index = 0; index < network.inputs().size(); ++index) {
      const auto input = network.input(index);
      std::ifstream file(question / place / ("input_" + std::to_string(index) + ".bin"), std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      ov::Shape shape;  // the free axis has what the size of the file leaves
      size_t known = input.get_element_type().size();
      for (const auto& axis : input.get_partial_shape()) known *= axis.is_static() ? axis.get_length() : 1;
      for (const auto& axis : input.get_partial_shape())
        shape.push_back(axis.is_static() ? axis.get_length() : bytes.size() / known);
      ov::Tensor tensor(input.get_element_type(), shape);
      std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.data()));
      request.set_input_tensor(index, tensor);
    }
    request.infer();
    fs::create_directories(answers / place);
    for (size_t index = 0; index < network.outputs().size(); ++index) {
      const auto output = request.get_output_tensor(index);
      std::ofstream file(answers / place / ("output_" + std::to_string(index) + ".bin"), std::ios::binary);
      file.write(static_cast<const char*>(output.data()), output.get_byte_size());
    }
  }
}
