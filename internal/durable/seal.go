package durable

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Seal is embedded in what is stored as a JSON file of its own, as its last field.
type Seal struct {
	SHA256 string `json:"sha256"` // of the file with this field empty
}

func (s *Seal) seal() *string { return &s.SHA256 }

// Sealed is a pointer to a struct that embeds a Seal.
type Sealed interface{ seal() *string }

// encode sets the seal of v and returns the one text that a file of it has.
func encode(v Sealed) ([]byte, error) {
	at := v.seal()
	*at = ""
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	*at = Sum(sha256.Sum256(text))
	text, err = json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

// WriteSealed creates a JSON file of v, whose seal it sets.
func WriteSealed(path string, v Sealed) error {
	text, err := encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return WriteFile(path, text, 0o644)
}

// ReadSealed reads a file of at most so many bytes into v, which is zero but for its
// type. It refuses, with the file's name, fields that v has not, and a text that is not
// to the byte what WriteSealed wrote.
func ReadSealed(path string, v Sealed, limit int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(v); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the file is empty", path)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: cut off: the JSON ends before it is whole", path)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	said := *v.seal()
	want, err := encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !bytes.Equal(text, want) {
		return fmt.Errorf("%s: damaged or edited: its field sha256 is %.64q, that of its content %s", path, said, *v.seal())
	}
	return nil
}
