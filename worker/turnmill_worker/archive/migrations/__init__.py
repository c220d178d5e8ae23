"""What Alembic runs to bring an archive to the newest schema."""
