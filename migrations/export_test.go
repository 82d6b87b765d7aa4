package migrations

// Files are the migrations, for tests that apply some of them.
var Files = files

// Rights are what a server does to each table.
var Rights = rights

// UpWithin is Up that waits for long transactions for so long.
var UpWithin = up
