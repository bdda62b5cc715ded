package closedloop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Amendment says which fields of a record a run of a later program added.
type Amendment struct {
	Commit string   `json:"commit"` // of a later program that ran the same decisions again and added fields; absent: none did. All other times and loads are of the first run
	Device string   `json:"device"` // that it ran on
	Fields []string `json:"fields"` // keys that it added
}

// ErrNothingToAdd is the error of Amend where a record has every field already.
var ErrNothingToAdd = errors.New("the record has every field already")

// errDiffers is wrapped by Amend's error for a record that another run does not confirm.
var errDiffers = errors.New("the run differs from the record")

// timed are the fields of a record that say when and how fast it was made: another run of the
// same decisions has others, and those of the first stay.
var timed = []string{"commit", "device", "latency_us", "prepare_us", "shares_us", "load", "amended"}

// Amend adds the fields that a record lacks from another run of the same evaluation, and returns
// the record with them and an Amendment. Everything that the record says, but for times and who
// took them, has to be in the other run to the last bit; else nothing is returned but an error
// that names the first difference.
func Amend(record, run []byte) ([]byte, error) {
	var was, now Result
	if err := jsonin.Known(run, &now); err != nil {
		return nil, fmt.Errorf("closedloop: the run: %w", err)
	}
	if err := json.Unmarshal(record, &was); err != nil {
		return nil, fmt.Errorf("closedloop: the record: %w", err)
	}
	amended := now
	amended.Commit, amended.Device = was.Commit, was.Device
	amended.Latency, amended.Prepare, amended.Shares, amended.Load = was.Latency, was.Prepare, was.Shares, was.Load
	amended.Amended = was.Amended
	text, err := json.Marshal(&amended)
	if err != nil {
		return nil, fmt.Errorf("closedloop: %w", err)
	}
	before, err := tree(record)
	if err != nil {
		return nil, fmt.Errorf("closedloop: the record: %w", err)
	}
	after, err := tree(text)
	if err != nil {
		return nil, fmt.Errorf("closedloop: %w", err)
	}
	var added []string
	if err := extends("", before, after, &added); err != nil {
		return nil, fmt.Errorf("closedloop: %w: %w", errDiffers, err)
	}
	if len(added) == 0 {
		return nil, ErrNothingToAdd
	}
	amended.Amended = append(slices.Clone(was.Amended), Amendment{now.Commit, now.Device, added})
	if text, err = json.Marshal(&amended); err != nil {
		return nil, fmt.Errorf("closedloop: %w", err)
	}
	return append(text, '\n'), nil
}

// tree is a JSON value whose numbers are as they are written.
func tree(text []byte) (v map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return v, dec.Decode(&v)
}

// extends reports an entry of was that now has not or has otherwise, and collects the keys that
// now has besides.
func extends(at string, was, now any, added *[]string) error {
	differs := func(a, b any) error { return fmt.Errorf("%s is %.80v in the record and %.80v in the run", at, a, b) }
	switch a := was.(type) {
	case map[string]any:
		b, ok := now.(map[string]any)
		if !ok {
			return differs(a, now)
		}
		for _, key := range slices.Sorted(maps.Keys(a)) {
			other, has := b[key]
			if !has {
				return fmt.Errorf("%s is in the record and not in the run", below(at, key))
			}
			if err := extends(below(at, key), a[key], other, added); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(b)) {
			name := below(at, key)
			if _, has := a[key]; has {
				continue
			}
			if top, _, _ := strings.Cut(name, "."); slices.Contains(timed, top) {
				return fmt.Errorf("%s is not in the record, and cannot be added", name)
			}
			if !slices.Contains(*added, name) {
				*added = append(*added, name)
			}
		}
	case []any:
		b, ok := now.([]any)
		if !ok || len(a) != len(b) {
			return differs(a, now)
		}
		for i := range a {
			if err := extends(fmt.Sprintf("%s[%d]", at, i), a[i], b[i], added); err != nil {
				return err
			}
		}
	case json.Number:
		// The same number may be written otherwise.
		b, ok := now.(json.Number)
		if !ok {
			return differs(a, now)
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		if errX != nil || errY != nil || x != y {
			return differs(a, b)
		}
	default:
		if was != now {
			return differs(was, now)
		}
	}
	return nil
}

func below(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
