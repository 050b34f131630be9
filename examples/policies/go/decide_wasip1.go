package main

import "meshgen/policy/sdk"

//go:wasmexport decide
func decide() int32 { return sdk.Run(Decide) }
