import sqlite3

with sqlite3.connect("shop.db") as connection:
    connection.executescript("""
        drop table if exists products;
        create table products (name text, category text, price real);
        insert into products values
            ('Desk', 'furniture', 240), ('Lamp', 'light', 35),
            ('Chair', 'furniture', 95), ('Bulb', 'light', 4);
    """)
connection.close()
