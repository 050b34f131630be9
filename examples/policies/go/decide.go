// A policy that takes over a predecessor's container if it has the image that
// the manifest names, and refuses otherwise.
//
//	modules: forge: {
//		wasm: "predecessor.wasm"
//		policy: image: "docker.io/gitea/gitea:1.23"
//	}
//
// All else it decides as the built-in policy does without settings. Build it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags=-s -o predecessor.wasm
package main

import "meshgen/policy/sdk"

func main() {} // never called: the host calls decide

// Decide is the policy.
func Decide(f sdk.Facts) (sdk.Decision, string) {
	if f.Text("transition") != "takeover" || f.Text("kind") != "container" {
		return sdk.Default(f)
	}
	want, is := f.Setting("image"), f.Text("observed.image")
	switch {
	case want == "":
		return sdk.Refuse, "there is no policy.image to know the predecessor by"
	case f.Is("observed.released"):
		return sdk.Hold, "it was given back by hand"
	case is != want:
		return sdk.Refuse, "its image is " + is + ", and the predecessor's is " + want
	}
	return sdk.Adopt, "it is the predecessor, " + want
}
