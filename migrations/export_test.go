package migrations

// Files are the migrations, for tests that apply some of them.
var Files = files
