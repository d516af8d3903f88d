// swift-tools-version: 5.9
import PackageDescription

let package = Package(
    name: "run",
    platforms: [.macOS(.v14)],
    dependencies: [.package(url: "https://github.com/ml-explore/mlx-swift", from: "0.25.0")],
    targets: [
        .executableTarget(
            name: "run", dependencies: [.product(name: "MLX", package: "mlx-swift")], path: ".",
            exclude: ["README.md"], sources: ["main.swift"])
    ]
)
