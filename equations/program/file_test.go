package program

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// crane is a small program with everything that a file may have.
func crane(t testing.TB) *Program {
	t.Helper()
	b := NewBuilder("ode", Argument{Name: "s", Size: 2, Vector: "state"}, Argument{Name: "u", Size: 1, Vector: "action"})
	s, u := b.In(0), b.In(1)
	ode := b.Function([]Argument{{Name: "ds", Size: 2, Vector: "state"}}, []Value{s[1], b.Apply(Sub, u[0], b.Apply(Mul, b.Const(9.81), b.Apply(Sin, s[0])))})
	b = NewBuilder("odd", Argument{Name: "x", Size: 1})
	odd := b.Function([]Argument{{Name: "y", Size: 5}}, []Value{
		b.Const(math.Copysign(0, -1)), b.Const(math.NaN()), b.Const(math.Inf(1)), b.Const(math.Inf(-1)), b.Apply(Select, 0, b.Const(1e-7), b.Const(1e300)),
	})
	p := &Program{
		Name: `a "crane"`, Vectors: []Vector{{"state", []string{"sway", "rate"}}, {"action", []string{"push"}}}, Functions: []*Function{ode, odd},
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

const craneText = `{"format":"gpc-program","version":1,"name":"a \"crane\"",` +
	`"vectors":[{"name":"state","entries":["sway","rate"]},{"name":"action","entries":["push"]}],"functions":[` +
	`{"name":"ode","inputs":[{"name":"s","size":2,"of":"state"},{"name":"u","size":1,"of":"action"}],"outputs":[{"name":"ds","size":2,"of":"state"}],` +
	`"code":[["const",9.81],["sin",0],["mul",3,4],["sub",2,5]],"results":[1,6]},` +
	`{"name":"odd","inputs":[{"name":"x","size":1}],"outputs":[{"name":"y","size":5}],` +
	`"code":[["const","-0"],["const","NaN"],["const","Infinity"],["const","-Infinity"],["const",1e-7],["const",1e+300],["select",0,5,6]],"results":[1,2,3,4,7]}]}`

// The form is this, and the identity the hash of it: both are promises to files that exist.
func TestMarshal(t *testing.T) {
	p := crane(t)
	text, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != craneText {
		t.Errorf("the program is\n%s\nwant\n%s", text, craneText)
	}
	id, err := p.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(id[:]); got != "ee43e41dc02df284326d8b9c9781946a030124058a48d2ec42f8cc81875f5457" {
		t.Errorf("the identity is %s", got)
	}
}

// What is read is what was written, and spaces and another order of fields make no other program.
func TestRead(t *testing.T) {
	p, err := Unmarshal([]byte(strings.ReplaceAll(craneText, ",", " ,\n")))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := p.Identity()
	b, _ := crane(t).Identity()
	if a != b {
		t.Error("the program that was read is another")
	}
	if got := evaluate(p.Function("ode"), 1, 2, 3); !slices.Equal(got, evaluate(crane(t).Function("ode"), 1, 2, 3)) {
		t.Errorf("the function that was read writes %v", got)
	}
}

// Any program that a builder makes is read back to the bit.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := random(rapid.Uint64().Draw(rt, "seed"))
		p := &Program{Name: "random", Functions: []*Function{f, f.Jacobian(nil).Function, f.Hessian(nil).Function}}
		text, err := p.Marshal()
		if err != nil {
			rt.Fatal(err)
		}
		q, err := Unmarshal(text)
		if err != nil {
			rt.Fatal(err)
		}
		again, err := q.Marshal()
		if err != nil || !bytes.Equal(text, again) {
			rt.Fatalf("%v: read back it is\n%s\nwant\n%s", err, again, text)
		}
	})
}

// What is wrong with a file is said with its place.
func TestHostileFilesAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`{"format"`, `[{"format"`, "not a JSON object"},
		{`"gpc-program"`, `"gpc"`, `format is "gpc", want "gpc-program"`},
		{`"version":1`, `"version":2`, "version is 2"},
		{`"version":1`, `"version":1.0`, "version is 1.0"},
		{`"version":1,`, ``, "version is missing"},
		{`"version":1`, `"version":1,"extra":1`, `"extra" is not a field of a program`},
		{`"version":1`, `"version":1,"version":1`, `"version" appears twice`},
		{`"a \"crane\""`, `""`, "name is empty"},
		{`"a \"crane\""`, `"` + strings.Repeat("x", 257) + `"`, "name has 257 bytes"},
		{`"a \"crane\""`, `"a\u0000b"`, "does not print"},
		{`"a \"crane\""`, `null`, "name is null"},
		{`"rate"`, `"sway"`, `vectors[0].entries[1] "sway" appears twice`},
		{`"rate"`, `7`, "vectors[0].entries[1] is 7, want a string"},
		{`"name":"action"`, `"name":"state"`, `vectors[1].name "state" appears twice`},
		{`"name":"odd"`, `"name":"ode"`, `functions[1].name "ode" appears twice`},
		{`"size":2,"of":"state"}],"code"`, `"size":3,"of":"state"}],"code"`, `outputs[0].size is 3, the vector "state" has 2`},
		{`"of":"action"`, `"of":"actions"`, `inputs[1].of is "actions", want the name of one of vectors`},
		{`"of":"action"`, `"of":""`, "inputs[1].of is empty"},
		{`"size":1,"of"`, `"size":-1,"of"`, "functions[0].inputs[1].size is -1"},
		{`"size":5`, `"size":70000`, "functions[1].outputs[0].size is 70000, want an integer from 0 to 65536"},
		{`["sin",0]`, `["sine",0]`, `functions[0].code[1]: unknown operation "sine"`},
		{`["sin",0]`, `["input",0]`, `functions[0].code[1]: unknown operation "input"`},
		{`["sin",0]`, `["sin",4]`, "code[1] (sin): operand 1 is value 4, want one of the 4 values before it"},
		{`["sin",0]`, `["sin",-1]`, "functions[0].code[1] (sin): operand 1 is -1"},
		{`["sin",0]`, `["sin",99999999999]`, "functions[0].code[1] (sin): operand 1 is 99999999999"},
		{`["sin",0]`, `["sin"]`, "functions[0].code[1] (sin) has 0 operands, want 1"},
		{`["sin",0]`, `["sin",0,0]`, "functions[0].code[1] (sin) has 2 operands, want 1"},
		{`["sin",0]`, `["select",0,0,0,0]`, "functions[0].code[1] (select) has 4 operands, want 3"},
		{`["sin",0]`, `[]`, "functions[0].code[1] is empty"},
		{`["sin",0]`, `"sin"`, `functions[0].code[1] is "sin", want a list`},
		{`9.81`, `1e999`, "functions[0].code[0]: constant 1e999"},
		{`9.81`, `"9.81"`, `functions[0].code[0]: constant "9.81"`},
		{`9.81`, `null`, "functions[0].code[0]: constant null"},
		{`"results":[1,6]`, `"results":[1,7]`, "results[1] is value 7, want one of the 7 values of the function"},
		{`"results":[1,6]`, `"results":[1]`, "results has 1 entries, want 2"},
		{`"results":[1,6]`, `"results":{}`, "functions[0].results is {}, want a list"},
		{`[1,2,3,4,7]}]}`, `[1,2,3,4,7]}]`, "not JSON"},
		{`[1,2,3,4,7]}]}`, `[1,2,3,4,7]}]}{}`, "more than one JSON value"},
		{`"sway"`, "\"\xff\"", "UTF-8"},
		{`"vectors":[`, `"vectors":[` + strings.Repeat(`{"name":"v","entries":[]},`, 65), "vectors has more than 64 entries"},
	} {
		text := strings.Replace(craneText, c.old, c.new, 1)
		if text == craneText {
			t.Fatalf("%s is not there", c.old)
		}
		if _, err := Unmarshal([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %s", c.new, c.old, err, c.want)
		}
	}
	if _, err := Unmarshal(make([]byte, maxBytes+1)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file that is too long: %v", err)
	}
}

// A program that is not valid is not written.
func TestMarshalRefuses(t *testing.T) {
	p := crane(t)
	p.Functions = append(p.Functions, p.Functions[0])
	if _, err := p.Marshal(); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one function twice: %v", err)
	}
	if _, err := (&Program{Name: "p", Functions: []*Function{nil}}).Identity(); err == nil {
		t.Error("a nil function was taken")
	}
}

// Nothing that is read crashes, and what is read is written as it was understood.
func FuzzRead(f *testing.F) {
	f.Add([]byte(craneText))
	f.Add([]byte(`{"format":"gpc-program","version":1,"name":"p","vectors":[],"functions":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Unmarshal(text)
		if err != nil {
			return
		}
		own, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		q, err := Unmarshal(own)
		if err != nil {
			t.Fatal(err)
		}
		again, err := q.Marshal()
		if err != nil || !bytes.Equal(own, again) {
			t.Fatalf("%v: %s is read as %s", err, own, again)
		}
		for _, f := range p.Functions {
			if f.Entries()+f.Operations() < 1000 {
				f.Evaluate(make([]float64, f.Entries()), make([]float64, f.Results()))
			}
		}
	})
}
