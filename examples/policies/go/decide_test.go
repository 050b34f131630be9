package main

import (
	"testing"

	"meshgen/policy/sdk"
)

func TestDecide(t *testing.T) {
	takeover := sdk.Facts{"transition": "takeover", "kind": "container", "policy.image": "gitea:1.23", "observed.image": "gitea:1.23"}
	if d, why := Decide(takeover); d != sdk.Adopt {
		t.Errorf("%d, %s", d, why)
	}
	takeover["observed.image"] = "postgres:17"
	if d, why := Decide(takeover); d != sdk.Refuse || why != "its image is postgres:17, and the predecessor's is gitea:1.23" {
		t.Errorf("%d, %s", d, why)
	}
}
