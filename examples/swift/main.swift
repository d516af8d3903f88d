// Calls the function file of ../cpp/export.py twice, as an app would: results first, then the new state.
// mlx-swift calls a function with the arguments that are written down, so their order (see the metadata that
// Python and C++ read, and docs/mlxfn.md) is that of the code: here the image, then the state `average`.

import Foundation
import MLX

let arguments = CommandLine.arguments
let folder = URL(fileURLWithPath: arguments.count > 1 ? arguments[1] : ".")

let function = try importFunction(from: folder.appendingPathComponent("model.mlxfn"))
let inputs = try loadArrays(url: folder.appendingPathComponent("inputs.safetensors"))
let state = try loadArrays(url: folder.appendingPathComponent("state.safetensors"))

guard let image = inputs["0"], var average = state["average"] else {
    fatalError("run `python ../cpp/export.py \(folder.path)` first")
}

for _ in 0 ..< 2 {
    // scores and the average over all calls, then the state for the next call
    let results = try function(image, average)
    eval(results)
    average = results[2]
    print("scores", results[0], "average", results[1])
}
