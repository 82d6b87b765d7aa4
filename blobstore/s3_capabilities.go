package blobstore

// Capabilities is what a server was seen to do, tried out on objects of our own. Nothing is taken on trust: servers differ, and
// many accept a condition or a checksum without ever looking at it.
type Capabilities struct {
	// CreateOnlyPut and CreateOnlyComplete tell that If-None-Match: * is obeyed when an object is put (signed for a client,
	// too), and when an upload in parts is completed.
	CreateOnlyPut      bool `json:"create_only_put"`
	CreateOnlyComplete bool `json:"create_only_complete"`
	// ChecksumSHA256 tells that x-amz-checksum-sha256 is compared with the body, signed for a client, too.
	ChecksumSHA256 bool `json:"checksum_sha256"`
	// ChecksumCRC64NVME tells that the store computes the CRC-64/NVME of a whole object that was sent in parts.
	ChecksumCRC64NVME bool `json:"checksum_crc64nvme"`
	// Presign tells that requests signed in their URL are accepted, for whole objects, for parts and for reading.
	Presign bool `json:"presign"`
}

// Capable tells what the server was seen to do; nothing, before SetCapable.
func (s *S3) Capable() Capabilities {
	if c := s.capable.Load(); c != nil {
		return *c
	}
	return Capabilities{}
}

// SetCapable tells the store what its server can do. It may be called at any time.
func (s *S3) SetCapable(c Capabilities) { s.capable.Store(&c) }
