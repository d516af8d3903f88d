// Runs a function file that mlxify's Program.export_mlxfn wrote, with nothing but MLX.
//
//     ./run model.mlxfn inputs.safetensors [state.safetensors [calls]]
//
// inputs.safetensors holds the arguments as "0", "1", ... in their order, state.safetensors (Program.save_state) the
// initial state by name. Prints each result of the last call, one a line: its shape, then its values as float32.

#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "mlx/mlx.h"

namespace mx = mlx::core;

// Safetensors files keep no order, so the arguments are numbered.
std::vector<mx::array> load_arguments(const std::string& path) {
  auto [arrays, _] = mx::load_safetensors(path);
  std::vector<mx::array> arguments;
  for (size_t i = 0; i < arrays.size(); ++i) {
    arguments.push_back(arrays.at(std::to_string(i)));
  }
  return arguments;
}

// The names come after `"state": [` in the file's metadata. An app knows them, or reads the JSON with a library.
std::vector<std::string> state_names(const std::string& metadata) {
  std::vector<std::string> names;
  const std::string key = "\"state\": [";
  size_t at = metadata.find(key) + key.size();
  size_t end = metadata.find(']', at);
  while ((at = metadata.find('"', at)) < end) {
    size_t close = metadata.find('"', at + 1);
    names.push_back(metadata.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  return names;
}

void print(const mx::array& result) {
  auto values = mx::contiguous(mx::astype(result, mx::float32));
  values.eval();
  std::cout << "[";
  for (int i = 0; i < result.ndim(); ++i) {
    std::cout << (i ? "," : "") << result.shape(i);
  }
  std::cout << "]" << std::setprecision(9);
  for (size_t i = 0; i < values.size(); ++i) {
    std::cout << " " << values.data<float>()[i];
  }
  std::cout << "\n";
}

int run(int argc, char** argv) {
  auto function = mx::import_function(argv[1]);
  auto arguments = load_arguments(argv[2]);
  std::vector<mx::array> state;
  if (argc > 3) {
    auto [stored, _] = mx::load_safetensors(argv[3]);
    for (const auto& name : state_names(function.metadata())) {
      state.push_back(stored.at(name));
    }
  }
  std::vector<mx::array> results;
  for (int call = argc > 4 ? std::atoi(argv[4]) : 1; call > 0; --call) {
    auto all = arguments;
    all.insert(all.end(), state.begin(), state.end());
    results = function(all);
    mx::eval(results);
    // The results come first, then the new state: hand it to the next call.
    auto first = results.end() - state.size();
    state.assign(first, results.end());
    results.erase(first, results.end());
  }
  for (const auto& result : results) {
    print(result);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: run model.mlxfn inputs.safetensors [state.safetensors [calls]]\n";
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
